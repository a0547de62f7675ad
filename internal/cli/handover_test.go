package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/llms"
	"github.com/cortex-orchestrator/cortex/llm"
)

// notHandedOver are settings of a chat that are not about the node: each process has its own, or the same.
var notHandedOver = []string{"data", "nats", "log-format", "log-level"}

// TestNodeIsHandedOverWhole gives each setting of a chat a value, and checks that the node that takes over has it.
func TestNodeIsHandedOverWhole(t *testing.T) {
	e := &env{settings: settings{program: self, node: new(nodeSettings)}}
	chat, _, err := e.newRoot().Find([]string{"chat"})
	if err != nil {
		t.Fatal(err)
	}
	if err := chat.PreRunE(chat, nil); err != nil { // reads the settings of this command
		t.Fatal(err)
	}
	samples := map[string]string{
		"string": filepath.Join(t.TempDir(), "some,thing"), "stringSlice": "echo,clock", "bool": "", "int": "7", "duration": "77s", "copies": "3", "TIME": "30d", "SIZE": "5MB",
	}
	want := map[string]string{}
	chat.Flags().VisitAll(func(f *pflag.Flag) {
		if !hasSettingMark(f) || f.Value.Type() == "word" || f.Name == "console" { // for terminals, and for the browser of who started the chat
			return
		}
		v, ok := samples[f.Value.Type()]
		if f.Value.Type() == "bool" {
			v = map[string]string{"true": "false", "false": "true"}[f.DefValue]
		}
		if !ok || f.Value.Set(v) != nil || f.Value.String() == f.DefValue {
			t.Fatalf("--%s: this test has no value for it", f.Name)
		}
		want[f.Name] = f.Value.String()
	})
	e.settings.llms = map[string]*llms.Endpoint{"mine": {Name: "mine", Provider: "ollama", Model: "m", Local: true}}
	e.settings.budget = budget.Limits{Turn: llm.Budget{Tokens: 5, Cost: 0.5}}

	h, err := e.settings.handover()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var read datadir.Handover
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatal(err)
	}
	heir := &settings{program: self, data: "/data", logFormat: "json", tenant: "own", creds: "own", node: &nodeSettings{policy: "own", tell: func(string) {}}}
	next, own, err := heir.successor(&read)
	if err != nil {
		t.Fatal(err)
	}
	if len(own) > 0 {
		t.Errorf("its own are %v", own)
	}
	got := map[string]string{}
	next.nodeFlags(func(f *pflag.Flag) { got[f.Name] = f.Value.String() })
	for _, name := range notHandedOver {
		delete(want, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(e.settings.llms, next.llms, cmp.AllowUnexported(llms.Endpoint{}, llms.OpenAIKeys{}, llms.GoogleKeys{}), cmp.Comparer(func(a, b *llms.Provider) bool { return true })); diff != "" {
		t.Errorf("llms (-want +got):\n%s", diff)
	}
	if next.budget != e.settings.budget || next.node.taskTimeout != 77*time.Second || !next.node.passing || next.node.tell == nil || next.data != "/data" || next.logFormat != "json" {
		t.Errorf("the next node is %+v, %+v", next, next.node)
	}
}

// TestHeirHasItsOwn checks that a chat that takes over uses its own settings, with what they name, and otherwise those of the previous node,
// including keys.
func TestHeirHasItsOwn(t *testing.T) {
	heir := &settings{program: self, node: newNodeSettings(self, ownAgents...), llms: map[string]*llms.Endpoint{"mine": {Provider: "ollama", Model: "m"}}, budget: budget.Limits{Turn: llm.Budget{Tokens: 5}}}
	heir.common(pflag.NewFlagSet("chat", pflag.ContinueOnError))
	heir.flags.AddFlagSet(heir.node.flags)
	t.Setenv("CORTEX_POLICY", "/own")
	if err := heir.flags.Parse([]string{"--llm", "mine", "--auth", "/other", "--agents", "clock", "--shortlist", "20", "--sync", "2s"}); err != nil {
		t.Fatal(err)
	}
	if err := heir.take(heir.flags, nil); err != nil {
		t.Fatal(err)
	}
	next, own, err := heir.successor(&datadir.Handover{
		Flags: map[string]string{"llm": "theirs", "model": "big", "auth": "/keys", "retain": "30d", "agents": "echo", "shortlist": "7", "sync": "2s"},
		LLMs:  map[string]*llms.Endpoint{"theirs": {Provider: "ollama", Model: "t"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := next.handover()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"llm": "mine", "auth": "/keys", "retain": "30d", "agents": "clock", "sync": "2s", "policy": "/own"}, got.Flags); diff != "" {
		t.Errorf("its settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--agents", "--llm", "--policy", "--shortlist", "budget"}, own); diff != "" {
		t.Errorf("its own (-want +got):\n%s", diff)
	}
	if next.llms["mine"] == nil || next.llms["theirs"] == nil || next.budget != heir.budget {
		t.Errorf("it has %v and %+v", next.llms, next.budget)
	}
}

// TestHeirOfDefaults checks that a chat with settings takes over from one that was started without any.
func TestHeirOfDefaults(t *testing.T) {
	heir := &settings{program: self, node: newNodeSettings(self, ownAgents...)}
	heir.common(pflag.NewFlagSet("chat", pflag.ContinueOnError))
	heir.flags.AddFlagSet(heir.node.flags)
	if err := heir.flags.Parse([]string{"--policy", "/own"}); err != nil {
		t.Fatal(err)
	}
	if err := heir.take(heir.flags, nil); err != nil {
		t.Fatal(err)
	}
	next, own, err := heir.successor(&datadir.Handover{})
	if err != nil {
		t.Fatal(err)
	}
	if next.node.policy != "/own" || !slices.Equal(own, []string{"--policy"}) {
		t.Errorf("its policy is %q, its own are %v", next.node.policy, own)
	}
}

// TestHandoverOfAnotherVersion checks that unknown settings prevent a takeover: they could be an --auth of a later version.
func TestHandoverOfAnotherVersion(t *testing.T) {
	s := &settings{program: self, node: newNodeSettings(self)}
	for flags, want := range map[string]string{"none": "does not know", "sync": "", "retain": "--retain"} {
		_, _, err := s.successor(&datadir.Handover{Flags: map[string]string{flags: "strange"}})
		if got := err == nil; got != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("successor of --%s: %v, want %q", flags, err, want)
		}
	}
}

// TestPathsAreHandedOverWhole checks that paths are absolute, since the next process may run in another folder.
func TestPathsAreHandedOverWhole(t *testing.T) {
	for _, name := range pathFlags {
		s := &settings{program: self, node: newNodeSettings(self)}
		s.common(pflag.NewFlagSet("", pflag.ContinueOnError))
		s.nodeFlags(func(f *pflag.Flag) {
			if f.Name == name {
				if err := f.Value.Set("relative"); err != nil {
					t.Fatal(err)
				}
			}
		})
		h, err := s.handover()
		if err != nil || !filepath.IsAbs(h.Of(name)) || filepath.Base(h.Of(name)) != "relative" {
			t.Errorf("--%s is handed over as %q, %v", name, h.Of(name), err)
		}
	}
	newNodeSettings(self).flags.VisitAll(func(f *pflag.Flag) {
		what, usage := pflag.UnquoteUsage(f)
		if (what == "FILE" || what == "DIR") != slices.Contains(pathFlags, f.Name) {
			t.Errorf("--%s %s, %s: is it a path?", f.Name, what, usage)
		}
	})
}

// TestUnusedSettingsAreNamed joins a Cortex whose settings differ from those of the command.
func TestUnusedSettingsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		args, env []string
		running   map[string]string
		want      string
	}{
		"nothing given":   {running: map[string]string{"retain": "30d"}},
		"the same":        {args: []string{"--retain", "720h", "--policy", "/p"}, running: map[string]string{"retain": "30d", "policy": "/p"}},
		"as by default":   {args: []string{"--sync", "1s"}},
		"another":         {args: []string{"--retain", "7d"}, running: map[string]string{"retain": "30d"}, want: "--retain is not used until this one takes over: the cortex that runs is set otherwise"},
		"others":          {args: []string{"--sync", "2s", "--listen", ":1", "--prompts", "/x"}, want: "--listen, --prompts and --sync are not used until this one takes over: the cortex that runs is set otherwise"},
		"by a variable":   {env: []string{"CORTEX_POLICY", "/p"}, want: "--policy is not used until this one takes over: the cortex that runs is set otherwise"},
		"other keys":      {args: []string{"--auth", "/mine"}, running: map[string]string{"auth": "/theirs"}, want: "--auth is not used: the cortex that runs has other keys"},
		"no keys":         {args: []string{"--auth", "/mine"}, want: "has no keys: stop it, or leave --auth out"},
		"elsewhere":       {args: []string{"--nats", "h", "--sync", "1s"}, want: "--sync is not used: the cortex that runs is set otherwise"},
		"elsewhere, both": {args: []string{"--nats", "h"}, env: []string{"CORTEX_SYNC", "2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.env != nil {
				t.Setenv(test.env[0], test.env[1])
			}
			data := t.TempDir()
			own, err := datadir.Take(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Release()
			if err := datadir.LeaveAddress(data, datadir.Address{URL: "nats://h:1", PID: 7, Passing: true, Node: &datadir.Handover{Flags: test.running}}); err != nil {
				t.Fatal(err)
			}
			s := &settings{program: self, data: data, node: newNodeSettings(self, ownAgents...)}
			s.common(pflag.NewFlagSet("chat", pflag.ContinueOnError))
			s.data = data
			s.flags.AddFlagSet(s.node.flags)
			if err := s.flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			if err := s.take(s.flags, nil); err != nil {
				t.Fatal(err)
			}
			given, err := s.handover()
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.unused(t.Context(), given)
			if err != nil {
				got = err.Error()
			}
			if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
				t.Errorf("unused() = %q, want %q", got, test.want)
			}
		})
	}
}
