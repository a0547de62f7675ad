package mcp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
)

func environment(name string) (string, bool) {
	v, ok := map[string]string{"TOKEN": "s3cret-token", "EMPTY": "", "HOME": "/home/ann"}[name]
	return v, ok
}

// The files of other programs are read as they are.
func TestConfig(t *testing.T) {
	for name, test := range map[string]struct {
		file, server string
		want         mcp.Server
	}{
		"Claude": {
			`{"mcpServers": {"fs": {"type": "stdio", "command": "npx", "args": ["-y", "server", "${HOME}/data"], "env": {"KEY": "${TOKEN}", "N": 3}, "timeout": 5}}, "other": 1}`,
			"fs",
			mcp.Server{Argv: []string{"npx", "-y", "server", "/home/ann/data"}, Env: []string{"KEY=s3cret-token", "N=3"}},
		},
		"VS Code, with comments": {
			"// mine\n{\n\t\"inputs\": [],\n\t\"servers\": {\n\t\t/* the {first} */ \"web\": {\"type\": \"http\", \"url\": \"https://h/mcp//x\", \"headers\": {\"Authorization\": \"Bearer ${env:TOKEN}\",},},\n\t},\n}",
			"web",
			mcp.Server{URL: "https://h/mcp//x", Headers: map[string]string{"Authorization": "Bearer s3cret-token"}},
		},
		"a bare map":          {`{"fs": {"command": "fs"}, "theme": "dark"}`, "fs", mcp.Server{Argv: []string{"fs"}}},
		"an old server":       {`{"mcpServers": {"old": {"type": "sse", "url": "http://h/sse"}}}`, "old", mcp.Server{URL: "http://h/sse", SSE: true}},
		"another key":         {`{"mcpServers": {"g": {"httpUrl": "http://h/mcp"}}}`, "g", mcp.Server{URL: "http://h/mcp"}},
		"a default":           {`{"mcpServers": {"fs": {"command": "${NONE:-fs}", "args": ["${EMPTY:-a b}", "$HOME", "${EMPTY}"], "cwd": "${HOME}"}}}`, "fs", mcp.Server{Argv: []string{"fs", "a b", "$HOME", ""}, Dir: "/home/ann"}},
		"a byte order mark":   {"\xef\xbb\xbf" + `{"mcpServers": {"fs": {"command": "fs"}}}`, "fs", mcp.Server{Argv: []string{"fs"}}},
		"what JSON escapes":   {`{"mcpServers": {"fs": {"command": "a\"//b\\", "args": [", }"]}}}`, "fs", mcp.Server{Argv: []string{`a"//b\`, ", }"}}},
		"others may be wrong": {`{"mcpServers": {"fs": {"command": "fs"}, "bad": {"command": 7}}}`, "fs", mcp.Server{Argv: []string{"fs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := mcp.ParseConfig([]byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Server(test.server, environment)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Name = test.server
			if diff := cmp.Diff(&test.want, got, cmpopts.IgnoreUnexported(mcp.Server{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestConfigErrors(t *testing.T) {
	for file, want := range map[string]string{
		`{`:                               "it is not JSON: line 1:",
		"{\n\"mcpServers\": {x}}":         "it is not JSON: line 2:",
		`[]`:                              "want an object with the servers under mcpServers",
		`{"mcpServers": []}`:              "mcpServers: want an object with a server under each name",
		`{"mcpServers": {" ": {}}}`:       "a server has no name",
		`{"mcpServers": {"a\u0000": {}}}`: "want at most 64 bytes of printable characters",
		`{"mcpServers": {"s": {}}}`:       "s: it has neither a command nor a url",
		`{"mcpServers": {"s": {"command": "a", "url": "http://h"}}}`:                              "s: it has a command and a url",
		`{"mcpServers": {"s": {"command": ["a"]}}}`:                                               "s: command: want a text, not array",
		`{"mcpServers": {"s": {"command": "a", "args": "b"}}}`:                                    "s: args: want a list, not string",
		`{"mcpServers": {"s": {"command": "a", "args": ["${NONE}"]}}}`:                            "s: args[0]: the variable NONE is not set: export it, or write ${NONE:-default}",
		`{"mcpServers": {"s": {"command": "a", "env": {"K": "${input:key}"}}}}`:                   "s: env.K: ${input:key} is not known here",
		`{"mcpServers": {"s": {"command": "a", "args": ["${HOME"]}}}`:                             "s: args[0]: a ${ is not closed",
		`{"mcpServers": {"s": {"url": "h/mcp"}}}`:                                                 "s: url: want one such as https://host/mcp",
		`{"mcpServers": {"s": {"url": "https://ann:pw@h/mcp"}}}`:                                  "s: url: a name and a password do not belong there",
		`{"mcpServers": {"s": {"command": "a", "env": {"A=B": "c"}}}}`:                            "is no name of a variable with a value",
		`{"mcpServers": {"s": {"command": "a", "args": [` + strings.Repeat(`"",`, 300) + `""]}}}`: "at most 256 arguments",
		`{"mcpServers": {"t": {"command": "a"}}}`:                                                 `s: there is no server "s"`,
	} {
		c, err := mcp.ParseConfig([]byte(file))
		if err == nil {
			_, err = c.Server("s", environment)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", file, err, want)
		}
	}
}

// What a list shows of a server has no secrets.
func TestConfigAbout(t *testing.T) {
	c, err := mcp.ParseConfig([]byte(`{"mcpServers": {"web": {"url": "https://h/mcp?key=s3cret-token"}, "fs": {"command": "npx", "args": ["-y", "x"], "env": {"KEY": "s3cret-token"}}, "bad": {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range c.Names() {
		got[name] = c.About(name)
	}
	want := map[string]string{"web": "https://h/mcp", "fs": "npx -y x", "bad": "cannot be used: it has neither a command nor a url"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// FuzzConfig holds that a file of a stranger is read or refused, and that what is read has a name and something to reach.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers": {"fs": {"command": "npx", "args": ["${HOME}", "${X:-y}"], "env": {"A": "b"}}}}`,
		"{\"servers\": {\"w\": {\"url\": \"http://h\", /* c */ },}, // d\n}", `{"a": {"url": "${"}}`, `{"a": "\`, `/`, `/*`, `{"a":{"command":"\\\"//"}}`, `{,}`, `"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := mcp.ParseConfig(b)
		if err != nil {
			return
		}
		for _, name := range c.Names() {
			if c.About(name) == "" {
				t.Errorf("nothing is said of %q", name)
			}
			s, err := c.Server(name, environment)
			if err != nil {
				continue
			}
			if s.Name != name || (len(s.Argv) == 0) == (s.URL == "") {
				t.Errorf("%q became %+v", name, s)
			}
		}
	})
}
