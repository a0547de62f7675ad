package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Bounds of a configuration file.
const (
	maxConfig  = 4 << 20 // bytes
	maxServers = 256
	maxWords   = 256 // arguments, variables or headers of one server
	maxName    = 64  // bytes of a server's name
)

// Server says how to reach a server: by starting a program, or at a URL.
type Server struct {
	Name string // the agent's id is mcp_NAME

	Argv []string // the program and its arguments
	Dir  string   // its working directory; "" is the current one
	Env  []string // added to its environment, as KEY=value
	// Inherit passes on the whole environment of this process, for a command that the user typed. A program from a file gets only the variables in
	// inherited, so that it does not see this process's keys.
	Inherit bool

	URL     string            // in place of a program
	Headers map[string]string // of each request
	SSE     bool              // use the HTTP+SSE transport of revision 2024-11-05

	secret []string // values that must not appear in logs and cards
	login  *login   // nil: none is used
}

// Config is a configuration file that lists servers.
type Config struct {
	entries map[string]json.RawMessage
}

// ReadConfig reads the file that path names, see [ParseConfig]. Errors name the file.
func ReadConfig(ctx context.Context, path string) (*Config, error) {
	b, err := document.Read(ctx, path, maxConfig)
	if err != nil {
		return nil, err
	}
	c, err := ParseConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads a configuration in a format that other programs use: JSON, optionally with comments, with the servers under mcpServers
// (.mcp.json), under servers (VS Code), or at the top level. Since the file belongs to another program, unknown keys are ignored, and an
// invalid server is an error only when it is used.
func ParseConfig(b []byte) (*Config, error) {
	b = plainJSON(b)
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, explainJSON(b, err)
	}
	named := false
	for _, key := range []string{"mcpServers", "servers"} {
		raw, ok := top[key]
		if !ok {
			continue
		}
		var under map[string]json.RawMessage
		if err := json.Unmarshal(raw, &under); err != nil {
			return nil, fmt.Errorf("%s: want an object with a server under each name", key)
		}
		top, named = under, true
		break
	}
	c := &Config{entries: map[string]json.RawMessage{}}
	for name, raw := range top {
		if raw = bytes.TrimSpace(raw); !named && !bytes.HasPrefix(raw, []byte("{")) {
			continue // another setting of the file's owner
		}
		if err := checkName(name); err != nil {
			return nil, err
		}
		c.entries[name] = raw
	}
	if len(c.entries) > maxServers {
		return nil, fmt.Errorf("it lists %d servers: at most %d are allowed", len(c.entries), maxServers)
	}
	return c, nil
}

// checkName returns what is wrong with the name of a server.
func checkName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("a server has no name")
	case len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the name %.80q: want at most %d bytes of printable characters", name, maxName)
	}
	return nil
}

// Names returns the names of the servers in the order of the alphabet.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.entries)) }

// entry is a server in a configuration file.
type entry struct {
	Type      string            `json:"type"`
	Command   string            `json:"command"`
	Args      []string          `json:"args"`
	Env       map[string]value  `json:"env"`
	Cwd       string            `json:"cwd"`
	URL       string            `json:"url"`
	HTTPURL   string            `json:"httpUrl"`
	ServerURL string            `json:"serverUrl"`
	Headers   map[string]string `json:"headers"`
}

// value is the value of a variable, which some files give as a number or a boolean.
type value string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *value) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*v = value(s)
		return nil
	}
	if bytes.ContainsAny(b[:1], "{[n") {
		return errors.New("want a text")
	}
	*v = value(b)
	return nil
}

// About describes a server to a user who decides whether to start it: its command as in the file, or its URL without query and user.
func (c *Config) About(name string) string {
	e, err := c.entry(name)
	switch {
	case err != nil:
		return "cannot be used: " + err.Error()
	case e.Command != "":
		return strings.Join(append([]string{e.Command}, e.Args...), " ")
	}
	return shownURL(e.address())
}

func (c *Config) entry(name string) (*entry, error) {
	raw, ok := c.entries[name]
	if !ok {
		return nil, fmt.Errorf("there is no server %q", name)
	}
	e := &entry{}
	if err := json.Unmarshal(raw, e); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("%s: want %s, not %s", wrong.Field, wanted(wrong), wrong.Value)
		}
		return nil, errors.New("it is not written as a server is")
	}
	switch {
	case e.Command == "" && e.address() == "":
		return nil, errors.New("it has neither a command nor a url")
	case e.Command != "" && e.address() != "":
		return nil, errors.New("it has a command and a url: a server has one of them")
	case len(e.Args) > maxWords || len(e.Env) > maxWords || len(e.Headers) > maxWords:
		return nil, fmt.Errorf("at most %d arguments, variables or headers are allowed", maxWords)
	}
	return e, nil
}

func (e *entry) address() string {
	for _, u := range []string{e.URL, e.HTTPURL, e.ServerURL} {
		if u != "" {
			return u
		}
	}
	return ""
}

func wanted(err *json.UnmarshalTypeError) string {
	switch k := err.Type.Kind().String(); k {
	case "slice":
		return "a list"
	case "map", "struct":
		return "an object"
	default:
		return "a text"
	}
}

// Server returns a server of the file with ${NAME} and ${NAME:-default} replaced by environment variables. The default is used when the
// variable is unset or empty. lookup is called like [os.LookupEnv].
func (c *Config) Server(name string, lookup func(string) (string, bool)) (*Server, error) {
	e, err := c.entry(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, x := &Server{Name: name}, &expander{lookup: lookup}
	if e.Command != "" {
		s.Argv = []string{x.expand("command", e.Command)}
		for i, a := range e.Args {
			s.Argv = append(s.Argv, x.expand(fmt.Sprintf("args[%d]", i), a))
		}
		s.Dir = x.expand("cwd", e.Cwd)
		for _, k := range slices.Sorted(maps.Keys(e.Env)) {
			v := x.expand("env."+k, string(e.Env[k]))
			s.Env = append(s.Env, k+"="+v)
			x.secret = append(x.secret, v)
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
				x.fail("env", fmt.Sprintf("%.40q is no name of a variable with a value", k))
			}
		}
	} else {
		s.URL, s.SSE = x.expand("url", e.address()), e.Type == "sse"
		for _, k := range slices.Sorted(maps.Keys(e.Headers)) {
			v := x.expand("headers."+k, e.Headers[k])
			if s.Headers == nil {
				s.Headers = map[string]string{}
			}
			s.Headers[k] = v
			x.secret = append(x.secret, v, strings.TrimPrefix(v, "Bearer "))
		}
	}
	if x.err == nil {
		x.err = s.check()
	}
	if x.err != nil {
		return nil, fmt.Errorf("%s: %w", name, x.err)
	}
	s.secret = x.secret
	return s, nil
}

// check returns an error if the server cannot be reached as described.
func (s *Server) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if s.URL == "" {
		if len(s.Argv) == 0 || s.Argv[0] == "" {
			return errors.New("there is no program to run")
		}
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("url: want one such as https://host/mcp")
	}
	if u.User != nil {
		return errors.New("url: a name and a password do not belong there: give them as a header, such as Authorization")
	}
	return nil
}

// expander replaces variables in texts and keeps the first error.
type expander struct {
	lookup func(string) (string, bool)
	secret []string // the values of variables
	err    error
}

func (x *expander) fail(at, why string) {
	if x.err == nil {
		x.err = fmt.Errorf("%s: %s", at, why)
	}
}

func (x *expander) expand(at, text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			x.fail(at, "a ${ is not closed")
			return ""
		}
		name, fallback, optional := strings.Cut(name, ":-")
		name = strings.TrimPrefix(name, "env:") // as VS Code writes it
		if name == "" || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
		}) {
			x.fail(at, fmt.Sprintf("${%.40s} is not known here: write the value, or a variable of the environment", name))
			return ""
		}
		v, set := x.lookup(name)
		switch {
		case v != "":
			x.secret = append(x.secret, v)
		case optional:
			v = fallback
		case !set:
			x.fail(at, fmt.Sprintf("the variable %s is not set: export it, or write ${%s:-default}", name, name))
		}
		b.WriteString(v)
		text = after
	}
}

// minSecret is the minimum length of values that hide replaces; shorter ones occur in ordinary words.
const minSecret = 6

// hide replaces the server's environment and header values in text.
func (s *Server) hide(text string) string {
	for _, v := range slices.Concat(s.secret, s.login.secrets()) {
		if len(v) >= minSecret {
			text = strings.ReplaceAll(text, v, "***")
		}
	}
	return text
}

// shownURL returns a URL without its query and user.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "a url that cannot be read"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// plainJSON replaces comments and trailing commas with spaces, so that offsets stay the same.
func plainJSON(b []byte) []byte {
	out := bytes.TrimPrefix(slices.Clone(b), []byte("\xef\xbb\xbf"))
	comma := -1 // offset of the last comma if only space and comments followed it
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			comma = -1
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end := []byte("\n")
			if out[i+1] == '*' {
				end = []byte("*/")
			}
			n := bytes.Index(out[i+2:], end)
			if n < 0 {
				n = len(out) - i - 2
			} else {
				n += len(end)
			}
			for j := i; j < i+2+n; j++ {
				if out[j] != '\n' {
					out[j] = ' '
				}
			}
			i += 1 + n
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out
}

// explainJSON adds the line to a syntax error.
func explainJSON(b []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(int(syntax.Offset), len(b))
		return fmt.Errorf("it is not JSON: line %d: %w", 1+bytes.Count(b[:at], []byte("\n")), err)
	}
	return errors.New("want an object with the servers under mcpServers")
}

// FromCommand returns a server given on the command line: a program or a URL. For a URL, the bearer token is the value of [TokenVar].
func FromCommand(name string, argv []string, address string, lookup func(string) (string, bool)) (*Server, error) {
	s := &Server{Name: name, Argv: argv, URL: address, Inherit: true}
	if token, _ := lookup(TokenVar); address != "" && token != "" {
		s.Headers, s.secret = map[string]string{"Authorization": "Bearer " + token}, []string{token}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return s, nil
}

// TokenVar is the environment variable with the bearer token for a server that is given by its URL.
const TokenVar = "MCP_TOKEN"
