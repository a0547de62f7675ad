package llm

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

func TestGauge(t *testing.T) {
	var g gauge
	tokens := func(want int) {
		t.Helper()
		if got := g.tokens(1000); got != want {
			t.Errorf("tokens(1000) = %d, want %d", got, want)
		}
	}
	tokens(334) // three bytes, rounded up
	if got := g.bytes(10); got != 30 {
		t.Errorf("bytes(10) = %d, want 30", got)
	}
	g.measured(0, 5)
	g.measured(5, 0)
	tokens(334) // nothing was told
	g.measured(4000, 1000)
	tokens(250) // the first measurement counts in full
	g.measured(6000, 1000)
	tokens(223) // then a quarter of each: 4 + (6-4)/4
	for range 100 {
		g.measured(1_000_000, 1)
		g.measured(6001, 1000)
	}
	tokens(223) // no text has so few tokens
	for range 100 {
		g.measured(1, 1_000_000)
	}
	tokens(1000) // at least one
}

func TestGaugeConcurrent(t *testing.T) {
	var g gauge
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				g.measured(4000, 1000)
				g.tokens(10)
			}
		})
	}
	wg.Wait()
	if got := g.tokens(1000); got != 250 {
		t.Errorf("tokens(1000) = %d, want 250", got)
	}
}

func TestPromptOf(t *testing.T) {
	for _, c := range []struct {
		chunk Chunk
		want  int
	}{
		{Chunk{}, 0},
		{Chunk{Usage: Usage{Input: 100, Cached: 90, Output: 7}}, 100},
		{Chunk{Usage: Usage{Input: 100, Cached: 900}}, 1000}, // these do not include those
		{Chunk{Usage: Usage{Input: 200, Cached: 900}, Prompt: 500}, 500},
	} {
		if got := promptOf(&c.chunk); got != c.want {
			t.Errorf("promptOf(%+v) = %d, want %d", c.chunk, got, c.want)
		}
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct{ window, answer, want int }{
		{100_000, 0, 100_000 - 10_000 - 4096},
		{10_000, 0, 10_000 - 1000 - 2500}, // at most a quarter
		{100_000, 20_000, 70_000},
		{1001, 1, 1001 - 101 - 1},
		{1000, 5000, 650}, // at most a quarter here too
		{1, 0, 0},
	} {
		o := DeciderOptions{Window: c.window}
		if got := o.room(c.answer); got != c.want {
			t.Errorf("room(%d) of a window of %d = %d, want %d", c.answer, c.window, got, c.want)
		}
	}
}

// A prompt is never longer than what is assumed of it, whatever its texts are.
func TestAtMost(t *testing.T) {
	tmpl, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	base := baseOf(tmpl)
	rnd := rand.New(rand.NewPCG(1, 2))
	// Few texts of one kind at a time, so that what is assumed of others does not make up for them.
	some := func() int { return max(0, rnd.IntN(12)-8) }
	letters := []string{"a", "日", "\"", "\\", "\n", "<|a", "<cortex:", "</cortex:user>", "\xff", "\U000e0041", "\u202e", "\x1b[2J", "\t"}
	letter := ""
	text := func() string { return strings.Repeat(letter, 1+rnd.IntN(250)/len(letter)) }
	agents := func() (all []prompt.Agent) {
		for range some() {
			card := &a2a.AgentCard{Name: text(), Description: text()}
			for range some() {
				card.Skills = append(card.Skills, a2a.AgentSkill{ID: text(), Name: text(), Description: text(), Tags: []string{text(), text()}, Examples: []string{text()}})
			}
			all = append(all, prompt.Agent{ID: text(), Card: card})
		}
		return all
	}
	update := func() (u prompt.Update) {
		u.Joined = agents()
		for range some() {
			u.Left = append(u.Left, text())
		}
		return u
	}
	tasks := func() (all []prompt.Task) {
		for range some() {
			all = append(all, prompt.Task{
				ID: a2a.TaskID(text()), Agent: text(), Skill: text(), Text: text(), Input: []byte(`"` + strings.Repeat("<", some()) + `"`),
				DependsOn: []a2a.TaskID{a2a.TaskID(text())}, State: a2a.TaskState(text()), Result: text(),
				Artifacts: []prompt.Artifact{{Name: text(), Text: text()}, {Name: text(), Text: text()}},
			})
		}
		return all
	}
	steps := func() (all []prompt.Step) {
		for range some() {
			all = append(all, prompt.Step{Say: text(), Tasks: tasks(), Update: update()})
		}
		return all
	}
	for i := range 1300 {
		letter = letters[i%len(letters)]
		in := &prompt.Input{
			Agents: agents(), Listed: agents(), Summary: text(), Omitted: some(), Waiting: tasks(), User: text(), Update: update(),
			Steps: steps(), Now: time.Unix(1e9, 0), Last: some() == 0, MaxParallel: some(),
		}
		for range some() {
			in.History = append(in.History, prompt.Turn{User: text(), Update: update(), Steps: steps(), Kind: "clarify", Answer: text()})
		}
		p, err := tmpl.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		n := len(p.System)
		for _, m := range p.Messages {
			n += len(m.Text)
		}
		if most := base + atMost(in); n > most {
			t.Fatalf("the prompt has %d bytes, and %d were assumed at most", n, most)
		}
	}
}
