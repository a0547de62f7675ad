package prompt_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// mark is independent of the code under test.
var mark = regexp.MustCompile(`(?i)<\s*/?\s*cortex:[a-z-]*`)

// blocks returns the names of the blocks of text in order. It fails the test when a mark is not on a line of its own, or when blocks are not closed
// one after the other.
func blocks(t *testing.T, text string) []string {
	t.Helper()
	var names []string
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		name, starts := strings.CutPrefix(strings.TrimSuffix(line, ">"), "<cortex:")
		switch {
		case !mark.MatchString(line):
			continue
		case starts && open == "" && line == "<cortex:"+name+">":
			names, open = append(names, name), name
		case open != "" && line == "</cortex:"+open+">":
			open = ""
		default:
			t.Errorf("in block %q the line %q has a mark", open, line)
		}
	}
	if open != "" {
		t.Errorf("block %q is not closed", open)
	}
	if strings.Contains(text, "<|") {
		t.Error("a control token got through")
	}
	return names
}

func TestBlocksStayClosed(t *testing.T) {
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, p *prompt.Prompt, want ...string) {
		t.Helper()
		// The instructions mention the marks; external text comes after them.
		_, list, _ := strings.Cut(p.System, "the latest word counts.")
		got := blocks(t, list)
		for _, m := range p.Messages {
			got = append(got, blocks(t, m.Text)...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("blocks of %s (-want +got):\n%s", name, diff)
		}
	}
	for name, want := range map[string][]string{
		"injection_card":   {"agents", "user"},
		"injection_result": {"agents", "user", "results"},
		"injection_files":  {"agents", "user", "files", "results"},
		"agents_update":    {"agents", "user", "agents-update", "user", "results", "agents-update", "user", "agents-update", "results"},
	} {
		in := cases[name]
		check(name, render(t, &in), want...)
	}
	in := cases["many_agents_shortlist"]
	check("many_agents_shortlist", render(t, &in), "agents", "user", "results", "agents-update", "user")
	in = cases["unavailable"]
	check("unavailable", render(t, &in), "agents", "user", "unavailable")
	found, err := tmpl.Found(&prompt.Found{Agents: []prompt.Agent{hostile(), prompt.Excerpt(hostile(), nil, 600)}})
	if err != nil {
		t.Fatal(err)
	}
	check("what was found", &prompt.Prompt{Messages: []prompt.Message{{Text: found}}}, "agents")
	in = cases["injection_update"]
	p := render(t, &in)
	p.System = "" // without agents it mentions the marks at its end, and has no block
	check("injection_update", p, "summary", "agents-update", "user")
	check("injection_summary_request", rendered(t)(tmpl.Summary(&hostileHistory, 1)), "summary", "user", "results", "answer")
}

// TestListed checks that the list in the instructions has the first agents, not the present ones.
func TestListed(t *testing.T) {
	all := []prompt.Agent{clock(), echo()}
	system := func(in prompt.Input) string { return render(t, &in).System }
	for _, c := range []struct {
		name         string
		listed, same []prompt.Agent
	}{
		{"nil", nil, all},
		{"none", []prompt.Agent{}, nil},
		{"one", all[:1], all[:1]},
	} {
		if got, want := system(prompt.Input{Listed: c.listed, Agents: all}), system(prompt.Input{Agents: c.same}); got != want {
			t.Errorf("listed %s: the instructions differ (-want +got):\n%s", c.name, cmp.Diff(want, got))
		}
	}
}

func TestNothingToTell(t *testing.T) {
	want := show(render(t, &prompt.Input{User: "x", Steps: make([]prompt.Step, 1)}))
	empty := prompt.Update{Joined: []prompt.Agent{}, Left: []string{}}
	for _, summary := range []string{"", " \n\u200b\t"} {
		got := show(render(t, &prompt.Input{User: "x", Summary: summary, Update: empty, Steps: []prompt.Step{{Update: empty}}}))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("an empty update and summary %q show (-want +got):\n%s", summary, diff)
		}
	}
}

func TestSummary(t *testing.T) {
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	all := rendered(t)(tmpl.Summary(&long, len(long.History)))
	if diff := cmp.Diff(show(all), show(rendered(t)(tmpl.Summary(&long, 1000)))); diff != "" {
		t.Errorf("Summary of more turns than there are (-all +got):\n%s", diff)
	}
	if p := all; len(p.Messages) != 1 || p.Messages[0].Role != prompt.RoleUser {
		t.Errorf("Summary gives the messages %v, want one of the user", p.Messages)
	}
	for turns := 1; turns <= len(long.History); turns++ {
		text := show(rendered(t)(tmpl.Summary(&long, turns)))
		if !strings.Contains(text, "1,200 euros") {
			t.Errorf("Summary of %d turns lacks the earlier summary", turns)
		}
		for i, h := range long.History {
			if got, want := strings.Contains(text, firstLine(h.User)), i < turns; got != want {
				t.Errorf("Summary of %d turns has turn %d: %t", turns, i, got)
			}
		}
	}
	for _, turns := range []int{0, -1} {
		if p, err := tmpl.Summary(&long, turns); err == nil {
			t.Errorf("Summary of %d turns = %v, want an error", turns, p)
		}
	}
	if p, err := tmpl.Summary(&prompt.Input{Summary: "before", User: "x"}, 1); err == nil {
		t.Errorf("Summary without a history = %v, want an error", p)
	}
	in := prompt.Input{Summary: strings.Repeat("s", 1<<20), History: []prompt.Turn{{
		User: strings.Repeat("u", 1<<20), Answer: strings.Repeat("a", 1<<20),
		Steps: []prompt.Step{{Tasks: slices.Repeat([]prompt.Task{{Text: strings.Repeat("t", 1<<20), Result: strings.Repeat("r", 1<<20)}}, 8)}},
	}}}
	if n := len(rendered(t)(tmpl.Summary(&in, 1)).Messages[0].Text); n > 260<<10 {
		t.Errorf("a request for a summary of texts without end has %d bytes", n)
	}
}

// firstLine returns the first line of s.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
