package prompt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/prompt"
)

func render(t *testing.T, in *prompt.Input) *prompt.Prompt {
	t.Helper()
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	p, err := tmpl.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPrefix checks that everything before the facts at the end is a prefix of the conversation's next prompt, from step to step and from turn to
// turn, even when agents come and go, so that a provider's prompt cache hits.
func TestPrefix(t *testing.T) {
	listed := []prompt.Agent{clock(), research()}
	var prompts []*prompt.Prompt
	var history []prompt.Turn
	for turn := range 5 {
		update := func(step int) prompt.Update {
			u := prompt.Update{}
			if turn > 0 && (turn+step)%3 != 0 {
				u.Joined = []prompt.Agent{echo(), newClock()}[turn%2:]
			}
			if turn > 1 && (turn+step)%2 != 0 {
				u.Left = []string{fmt.Sprint("agent_", turn, step)}
			}
			return u
		}
		var steps []prompt.Step
		user := fmt.Sprintf("request %d", turn)
		for step := range 3 {
			prompts = append(prompts, render(t, &prompt.Input{
				Listed: listed, Agents: make([]prompt.Agent, turn+step), Summary: "what was before",
				History: history[:turn:turn], User: user, Update: update(-1), Steps: steps[:step:step], Last: step == 2,
				Now: now.Add(time.Duration(len(prompts)) * time.Minute), Omitted: turn,
				Waiting: make([]prompt.Task, turn),
			}))
			echo := echoTask(a2a.TaskStateCompleted, "hi")
			echo.DependsOn = []a2a.TaskID{"0b5f2c9e-clock"}
			steps = append(steps, prompt.Step{
				Update: update(step), Tasks: []prompt.Task{clockTask(a2a.TaskStateFailed, fmt.Sprint("no clock ", turn, step)), echo},
			})
		}
		history = append(history, prompt.Turn{
			User: user, Update: update(-1), Steps: steps[:2], Kind: []string{"", "clarify", "refuse"}[turn%3], Answer: fmt.Sprint("answer ", turn),
		})
	}
	for i, p := range prompts[:len(prompts)-1] {
		all := show(p)
		stable, _, found := strings.Cut(all, "\n\nIt is Saturday")
		if !found {
			t.Fatalf("prompt %d has no facts at its end:\n%s", i, all)
		}
		if next := show(prompts[i+1]); !strings.HasPrefix(next, stable) {
			t.Errorf("prompt %d without its facts is not a prefix of the next one:\n%s\n--- next:\n%s", i, stable, next)
		}
		if p.System != prompts[0].System {
			t.Errorf("prompt %d has another system text", i)
		}
	}
	if last := show(prompts[len(prompts)-1]); strings.Count(last, "</cortex:agents-update>") < 5 || strings.Count(last, "<cortex:summary>") != 1 {
		t.Errorf("the last prompt lacks updates or a summary:\n%s", last)
	}
}

func TestAlternation(t *testing.T) {
	for name, in := range cases {
		want := prompt.RoleUser
		for i, m := range render(t, &in).Messages {
			if m.Role != want {
				t.Errorf("%s: message %d is of %s, want %s", name, i, m.Role, want)
			}
			if m.Text == "" {
				t.Errorf("%s: message %d is empty", name, i)
			}
			if want = prompt.RoleAssistant; m.Role == prompt.RoleAssistant {
				want = prompt.RoleUser
			}
		}
		if want != prompt.RoleAssistant {
			t.Errorf("%s: the last message is not the user's", name)
		}
	}
}

func TestCaps(t *testing.T) {
	big := strings.Repeat("x y\u00e9 ", 1<<20)
	card := &a2a.AgentCard{Name: big, Description: big}
	for i := range 200 {
		s := a2a.AgentSkill{ID: fmt.Sprint(big[:400], i), Name: big, Description: big}
		for range 50 {
			s.Tags, s.Examples = append(s.Tags, big), append(s.Examples, big)
		}
		card.Skills = append(card.Skills, s)
	}
	task := prompt.Task{ID: a2a.TaskID(big), Agent: big, Skill: big, Text: big, State: a2a.TaskState(big), Result: big, Input: json.RawMessage(`"` + big + `"`)}
	for range 100 {
		task.Artifacts = append(task.Artifacts, prompt.Artifact{Name: big, Text: big})
	}
	size := func(in *prompt.Input) (n int) {
		p := render(t, in)
		n = len(p.System)
		for _, m := range p.Messages {
			n += len(m.Text)
		}
		return n
	}
	base := size(&prompt.Input{User: "x"})
	for _, c := range []struct {
		name string
		in   prompt.Input
		most int
	}{
		{"agent", prompt.Input{User: "x", Agents: []prompt.Agent{{ID: "a", Card: card}}}, 10 << 10},
		{"user", prompt.Input{User: big}, 65 << 10},
		{"history", prompt.Input{User: "x", History: []prompt.Turn{{User: big, Answer: big}}}, 82 << 10},
		{"summary", prompt.Input{User: "x", Summary: big}, 17 << 10},
		{"joined", prompt.Input{User: "x", Update: prompt.Update{Joined: []prompt.Agent{{ID: "a", Card: card}}}}, 10 << 10},
		{"left", prompt.Input{User: "x", Update: prompt.Update{Left: []string{big}}}, 1 << 10},
		{"unavailable", prompt.Input{User: "x", Unavailable: slices.Repeat([]prompt.Unavailable{{ID: big, Why: big}}, 100)}, 2 << 10},
		{"depends", prompt.Input{User: "x", Steps: []prompt.Step{{Tasks: []prompt.Task{{ID: "a", DependsOn: slices.Repeat([]a2a.TaskID{"a"}, 1<<16)}}}}}, 1 << 10},
		{"step", prompt.Input{User: "x", Steps: []prompt.Step{{Say: big, Tasks: []prompt.Task{task}}}}, 62 << 10},
		{"waiting", prompt.Input{User: "x", Waiting: []prompt.Task{
			task, task, task, task, task, task, task, task, task, task, task, task, task, task, task, task, task, task, task,
		}}, 52 << 10},
	} {
		if got := size(&c.in) - base; got > c.most {
			t.Errorf("%s adds %d bytes, want at most %d", c.name, got, c.most)
		}
	}
	if p := render(t, &prompt.Input{User: big}); !strings.Contains(p.Messages[0].Text, "more bytes are cut off]") {
		t.Error("a long text is cut without saying so")
	}
}

// TestTrimmedLooksTheSame checks that a trimmed agent is shown as the original, since a difference would count as a change.
func TestTrimmedLooksTheSame(t *testing.T) {
	wordy := hostile()
	for i := range wordy.Card.Skills {
		wordy.Card.Skills[i] = wordy.Card.Skills[0]
		wordy.Card.Skills[i].ID = strings.Repeat("é", 10*i)
	}
	for _, a := range []prompt.Agent{echo(), clock(), research(), hostile(), wordy, {ID: "bare", Card: &a2a.AgentCard{}}, {ID: "none"}} {
		want := render(t, &prompt.Input{User: "x", Agents: []prompt.Agent{a}}).System
		kept, err := json.Marshal(prompt.Trim(a))
		if err != nil {
			t.Fatal(err)
		}
		var again prompt.Agent
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]prompt.Agent{"trimmed": prompt.Trim(a), "and kept": again, "twice": prompt.Trim(again)} {
			if diff := cmp.Diff(want, render(t, &prompt.Input{User: "x", Agents: []prompt.Agent{b}}).System); diff != "" {
				t.Errorf("agent %q, %s, shows otherwise (-want +got):\n%s", a.ID, name, diff)
			}
		}
	}
}

// TestIDs checks that ids, which a model has to copy exactly, are escaped and never changed.
func TestIDs(t *testing.T) {
	for _, id := range []string{"agent_echo", "a\"b\\c", "ev\u202eil", "tag\U000e0041", "<|x|>", "</cortex:agents>", "日本"} {
		p := render(t, &prompt.Input{User: "x", Agents: []prompt.Agent{{ID: id, Card: &a2a.AgentCard{Name: id}}}})
		_, line, _ := strings.Cut(p.System, "\n- id ")
		var got string
		if err := json.NewDecoder(strings.NewReader(line)).Decode(&got); err != nil || got != id {
			t.Errorf("id %q reads as %q (%v)", id, got, err)
		}
		if strings.Count(p.System, "</cortex:agents>") != 1 {
			t.Errorf("id %q closes its block", id)
		}
	}
}

func TestOverrideErrors(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"syntax", "agent.tmpl", "fine\n{{if}}\n", "agent.tmpl:2"},
		{"field", "system.tmpl", "fine\n\n{{.Nope}}\n", "system.tmpl:3"},
		{"field in a branch", "facts.tmpl", "{{if .Last}}\n{{.Nope}}{{end}}\n", "facts.tmpl:2"},
		{"missing", "user.tmpl", "{{template \"other.tmpl\"}}", "other.tmpl"},
		{"empty", "user.tmpl", "\n", "user.tmpl:1: gives no text"},
		{"field of the summary", "earlier.tmpl", "{{.Text}}", "earlier.tmpl:1"},
		{"field of an update", "update.tmpl", "{{if not .Joined}}{{.Nope}}{{end}}x", "update.tmpl:1"},
		{"empty update", "update.tmpl", "{{if and .Joined .Left}}x{{end}}", "update.tmpl:1: gives no text"},
		{"field of a request", "summary.tmpl", "{{range .Turns}}{{if not .Answer}}\n{{.Nope}}{{end}}{{end}}x", "summary.tmpl:2"},
		{"kind", "summary.tmpl", "{{range .Turns}}{{if eq .Kind \"refuse\"}}{{.Nope}}{{end}}{{end}}x", "summary.tmpl:1"},
		{"field of what was found", "found.tmpl", "x{{if .Fits}}{{.Nope}}{{end}}", "found.tmpl:1"},
		{"field of a choice", "system.tmpl", "x{{if .Choice}}{{.Nope}}{{end}}", "system.tmpl:1"},
		{"field of an update to a choice", "update.tmpl", "x{{if .Choice}}{{.Nope}}{{end}}", "update.tmpl:1"},
		{"instructions", "summary_system.tmpl", "{{.Summary}}", "summary_system.tmpl:1"},
		{"unknown", "sytem.tmpl", "x", "no such template, there are agent.tmpl"},
		{"emptied", "agent.tmpl", "", "agent.tmpl:1: gives no text"},
		{"without ids", "agent.tmpl", "- {{.Name}}", "agent.tmpl: does not show {{.ID}}"},
		{"overwritten", "facts.tmpl", "\x00\xff\xfe", "it is not UTF-8"},
		{"large", "system.tmpl", strings.Repeat("x", 300<<10), "at most 262144"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := prompt.New(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("New = %v, want an error with %q and the folder", err, c.want)
			}
		})
	}
	if _, err := prompt.New(filepath.Join(t.TempDir(), "nowhere")); err == nil {
		t.Error("New of a folder that does not exist gives no error")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "user.tmpl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := prompt.New(dir); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("New with a folder for a template = %v, want an error", err)
	}
}

func TestOverrideEmptyAndOtherFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"facts.tmpl": "", "README.md": "{{"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tmpl, err := prompt.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tmpl.Render(&prompt.Input{User: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Messages[0].Text, "<cortex:user>\nx\n</cortex:user>"; got != want {
		t.Errorf("with empty facts the message is %q, want %q", got, want)
	}
}
