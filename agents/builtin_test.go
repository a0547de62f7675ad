package agents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestLookup(t *testing.T) {
	for _, name := range agents.Builtin() {
		c, h, ok := agents.Lookup(name)
		if !ok || h == nil {
			t.Fatalf("Lookup(%q) finds nothing", name)
		}
		if err := transport.ValidateCard(c); err != nil || c.Name != "agent_"+name || c.Description == "" || len(c.Skills) == 0 {
			t.Errorf("card of %s = %+v, %v", name, c, err)
		}
		for _, s := range c.Skills {
			if s.ID == "" || s.Description == "" || len(s.Tags) == 0 || len(s.Examples) == 0 {
				t.Errorf("skill of %s lacks something: %+v", name, s)
			}
			for _, example := range s.Examples {
				if got, err := run(t, h, &agents.Task{Message: message(example)}); err != nil || got == "" {
					t.Errorf("%s does not do its own example %q: %q, %v", name, example, got, err)
				}
			}
		}
		if long, _, ok := agents.Lookup("agent_" + name); !ok || !cmp.Equal(c, long) {
			t.Errorf("Lookup(%q) is not Lookup(%q)", "agent_"+name, name)
		}
	}
	if _, _, ok := agents.Lookup("exec"); ok {
		t.Error(`Lookup("exec") finds something`)
	}
}

func TestEcho(t *testing.T) {
	c, h, _ := agents.Lookup("echo")
	text := []string{"text/plain"}
	want := &a2a.AgentCard{
		Name: "agent_echo", Description: "A simple echo agent that repeats back messages for testing purposes", Version: "1.0.0",
		SupportedInterfaces: []*a2a.AgentInterface{}, DefaultInputModes: text, DefaultOutputModes: text,
		Skills: []a2a.AgentSkill{{
			ID: "echo", Name: "Echo Messages", Description: "Echoes back any text message with an 'Echo: ' prefix",
			Tags:     []string{"testing", "echo", "debug"},
			Examples: []string{"Echo this message", "Repeat what I say", "Test echo functionality"}, InputModes: text, OutputModes: text,
		}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
	if got, err := run(t, h, &agents.Task{Message: message("Hello, world!")}); err != nil || got != "Echo: Hello, world!" {
		t.Errorf("echo = %q, %v", got, err)
	}
	m := message("Hello, world!")
	m.Parts = append(m.Parts, a2a.NewDataPart(map[string]any{"n": 1.0}))
	r, err := h(t.Context(), &agents.Task{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a2a.ContentParts{a2a.NewTextPart("Echo: Hello, world!"), m.Parts[1]}, r.Parts); diff != "" {
		t.Errorf("echo of data (-want +got):\n%s", diff)
	}
}

func TestClock(t *testing.T) {
	h := agents.Clock(func() time.Time { return time.Date(2026, 11, 20, 9, 5, 12, 0, time.UTC) })
	got, err := run(t, h, &agents.Task{Message: message("What time is it in Tokyo?")})
	if want := "Tokyo (Asia/Tokyo): 18:05:12 on Friday, 20 November 2026, UTC+09:00"; err != nil || got != want {
		t.Errorf("clock = %q, %v, want %q", got, err, want)
	}
	if _, err := run(t, h, &agents.Task{Message: message("What time is it in Atlantis?")}); err == nil || !strings.Contains(err.Error(), `"Atlantis"`) {
		t.Errorf("clock in Atlantis = %v, want an error that names it", err)
	}
	for zone, want := range map[any]string{
		"Asia/Tokyo": "Local time (JST): 18:05:12 on Friday, 20 November 2026, UTC+09:00", "../etc/passwd": "UTC: 09:05:12 on Friday, 20 November 2026",
		"Local": "UTC: 09:05:12 on Friday, 20 November 2026", 7: "UTC: 09:05:12 on Friday, 20 November 2026",
	} {
		m := message("What time is it?")
		m.Metadata = map[string]any{transport.MetaTimeZone: zone}
		if got, err := run(t, h, &agents.Task{Message: m}); err != nil || got != want {
			t.Errorf("clock for a user in %v = %q, %v, want %q", zone, got, err, want)
		}
	}
}

func TestCalc(t *testing.T) {
	_, h, _ := agents.Lookup("calc")
	if got, err := run(t, h, &agents.Task{Message: message("what is 17*23?")}); err != nil || got != "17*23 = 391" {
		t.Errorf("calc = %q, %v", got, err)
	}
	if _, err := run(t, h, &agents.Task{Message: message("1/0")}); err == nil {
		t.Error("calc of 1/0 has no error")
	}
}

// TestFilesAreNotRead checks that the agents that only read words say so of files.
func TestFilesAreNotRead(t *testing.T) {
	for name, want := range map[string]string{
		"echo": "Echo: 2+2\n(n.txt was not read: I take words only.)", "calc": "2+2 = 4\n(n.txt was not read: I take words only.)",
	} {
		_, h, _ := agents.Lookup(name)
		file := a2a.NewRawPart([]byte("three words here"))
		file.Filename = "n.txt"
		r, err := h(t.Context(), &agents.Task{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("2+2"), file)})
		if err != nil || transport.Text(r.Parts) != want {
			t.Errorf("%s = %+v, %v, want %q", name, r, err, want)
		}
	}
}
