package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

func TestNamed(t *testing.T) {
	x := router.New(nil)
	for _, id := range []string{"agent_echo", "agent_weather", "echo", "v1.2-beta", "Wetter-Köln", "a.b", "Twin", "twin", "agent:x/y"} {
		x.Put(id, nil)
	}
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"@agent_echo say hi", []string{"agent_echo"}},
		{"ask agent_weather to look", []string{"agent_weather"}},
		{"agent_echo: hi", []string{"agent_echo"}},
		{"Agent_Echo, then AGENT_WEATHER.", []string{"agent_echo", "agent_weather"}},
		{"agent_weather before agent_echo before agent_weather", []string{"agent_weather", "agent_echo"}},
		{"(agent_echo)", []string{"agent_echo"}},
		{`"agent_echo"/agent_weather`, []string{"agent_echo", "agent_weather"}},
		{"agent_echoes my_agent_echo agent", nil},
		{"echo", []string{"echo"}},
		{"with v1.2-beta.", []string{"v1.2-beta"}},
		{"wetter-köln!", []string{"Wetter-Köln"}},
		{"a.b, a.b.c", []string{"a.b"}},
		{"twin", []string{"twin"}},
		{"Twin", []string{"Twin"}},
		{"TWIN", []string{"Twin", "twin"}},
		{"ask agent:x/y now", []string{"agent:x/y"}},
	}
	for _, tt := range tests {
		if d := cmp.Diff(tt.want, x.Named(tt.text)); d != "" {
			t.Errorf("Named(%q) (-want +got):\n%s", tt.text, d)
		}
	}
	x.Remove("twin")
	if d := cmp.Diff([]string{"Twin"}, x.Named("TWIN twin")); d != "" {
		t.Errorf("Named after Remove (-want +got):\n%s", d)
	}
}

func TestNamedIsBounded(t *testing.T) {
	x := router.New(nil)
	var text strings.Builder
	for i := range 50 {
		id := fmt.Sprintf("agent_%d", i)
		x.Put(id, nil)
		fmt.Fprintf(&text, "%s ", id)
	}
	if got := x.Named(text.String()); len(got) != 20 || got[19] != "agent_19" {
		t.Errorf("Named of 50 agents = %v, want the first 20", got)
	}
	if got := x.Named(strings.Repeat(" ", 8<<10) + "agent_1"); got != nil {
		t.Errorf("Named found %v behind the first 8 KiB", got)
	}
}

func TestSearchHasTheNamedFirst(t *testing.T) {
	x := put(agents(t))
	x.Put("translate", card("Lawn", "mows lawns"))
	for _, tt := range []struct{ text, want string }{
		{"ask agent_lights whether it will rain in Oslo", "agent_lights"},
		{"@translate tomorrow's rain", "translate"},
		{"translate this letter into French", "agent_translate"}, // a word, not a name
	} {
		if got, score := first(x, tt.text); got != tt.want || score < router.Fits {
			t.Errorf("Search(%q) = %s %.2f, want %s", tt.text, got, score, tt.want)
		}
	}
	hits := x.Search("agent_lights", &router.SearchOptions{Keep: func(id string) bool { return id != "agent_lights" }})
	if strings.Contains(ids(hits), "agent_lights") {
		t.Errorf("Search found a named agent that Keep does not keep: %s", ids(hits))
	}
}

// TestAddressed says what an @ before an id, which is a word as well, is for.
func TestAddressed(t *testing.T) {
	x := router.New(nil)
	for _, id := range []string{"a", "echo"} {
		x.Put(id, nil)
	}
	for text, want := range map[string]bool{
		"is this a house?":            false,
		"@a, is this a house?":        true,
		"is this a house, @abel?":     false,
		"is this a house, @a.b?":      false,
		"is this a house? Ask @a.":    true,
		"@abel or @A: is it a house?": true,
		"say echo":                    false,
		"@echo-2 has no echo":         false,
		"@echo - hi":                  true,
	} {
		if got := x.Addressed(text); got != want {
			t.Errorf("Addressed(%q) = %t, want %t", text, got, want)
		}
	}
}
