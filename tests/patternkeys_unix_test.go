//go:build unix

package tests

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// TestPatternsWithKeys has alpha and beta, with credentials, bid for a task, and do another one together with a board. A thief, which has credentials as an
// agent and a task of another conversation, and a person reach neither their tenders nor their board.
func TestPatternsWithKeys(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(rules, []byte("rules: [{agents: [alpha, beta], skills: [weather], swarm: {agents: 2, rounds: 1}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveLimited(t, true, 1024, "--policy", rules)
	s.isReady()
	creds := func(role, name string) string {
		out, err := exec.Command(s.path, "auth", "add", role, name, "--data", s.data).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	dial := func(creds string) *nats.Bus {
		bus, err := nats.Dial(t.Context(), &nats.Options{URL: "nats://" + s.address(`url=nats://([0-9.:]+)`), Creds: creds})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	run := func(bus transport.Transport, id string, skills []string, o *agents.Options, h agents.Handler) {
		card := &a2a.AgentCard{Name: id, Description: "Knows " + strings.Join(skills, " and ")}
		for _, skill := range skills {
			card.Skills = append(card.Skills, a2a.AgentSkill{ID: skill, Name: skill, Description: "Does a " + skill})
		}
		card = agentcard.Attach(card, &agentcard.Spec{Patterns: []string{agentcard.MarketBidding, agentcard.SwarmPeer, agentcard.Blackboard}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- agents.Serve(ctx, bus, card, h, o) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%s ended: %v", id, err)
			}
		})
	}
	cortex := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, s.path, append(args, "--data", s.data)...).CombinedOutput()
		if err != nil {
			t.Errorf("cortex %q: %v: %s; the log:\n%s", args, err, out, s.log)
		}
		return string(out)
	}

	var mu sync.Mutex
	var shown []*transport.Board // to the thief
	asThief := creds("agent", "thief")
	thief, alpha, beta, ann := dial(asThief), dial(creds("agent", "alpha")), dial(creds("agent", "beta")), dial(creds("user", "ann"))
	sub, err := thief.Subscribe(t.Context(), transport.Control("", "thief"), nil)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan error, 1)
	go func() {
		heard <- sub.Serve(t.Context(), func(_ context.Context, e *transport.Event) error {
			if b, ok := e.Payload.(*transport.Board); ok {
				mu.Lock()
				defer mu.Unlock()
				shown = append(shown, b)
			}
			return nil
		})
	}()
	t.Cleanup(func() { <-heard })
	for _, topic := range []transport.Topic{transport.Control("", "alpha"), transport.Control("", transport.Cortex), transport.Inbox("", "alpha")} {
		if _, err := thief.Subscribe(t.Context(), topic, nil); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("the thief listens at %v: %v, want a refusal", topic, err)
		}
	}
	// try sends a payload, and wants it refused or not.
	try := func(bus *nats.Bus, allowed bool, topic transport.Topic, from, conversation string, task a2a.TaskID, p transport.Payload) {
		kind, _ := transport.PayloadKind(p)
		e := &transport.Event{ID: "forged-" + kind + from + string(task), Time: time.Now(), From: from, ContextID: conversation, TaskID: task, Payload: p}
		if topic.Kind == transport.KindInbox {
			e.To = transport.Cortex
		}
		if err := bus.Publish(t.Context(), topic, e); allowed && err != nil || !allowed && !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("a %s from %s for %s: %v, which is to be allowed: %v", kind, from, task, err, allowed)
		}
	}
	toCortex, atCortex := transport.Inbox("", transport.Cortex), transport.Control("", transport.Cortex)

	stolen := make(chan *agents.Task, 1)
	over := make(chan struct{})
	run(dial(asThief), "thief", []string{"idle"}, nil, func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
		stolen <- task
		select {
		case <-over:
			return agents.Text("idled"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	betas := make(chan *agents.Task, 1)
	run(beta, "beta", []string{"poem", "weather"}, &agents.Options{Bid: func(context.Context, *transport.Tender) (*transport.Bid, error) {
		return &transport.Bid{Confidence: 0.2}, nil
	}}, func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
		for p, err := range task.Board().Watch(ctx) {
			if err != nil {
				return nil, err
			}
			if p.Agent == "alpha" {
				betas <- task
				return agents.Text("Sunny."), task.Board().Post(ctx, "second", "seen "+p.Text, 0)
			}
		}
		return nil, context.Cause(ctx)
	})
	run(alpha, "alpha", []string{"poem", "weather"}, &agents.Options{Bid: func(_ context.Context, tender *transport.Tender) (*transport.Bid, error) {
		least := &transport.Bid{Tender: tender.ID} // if it counted, alpha's own would not
		try(thief, true, atCortex, "thief", "p1", "", least)
		try(thief, false, atCortex, "alpha", "p1", "", least)
		try(ann, true, atCortex, "user:ann", "p1", "", least) // live events are not answered
		try(ann, false, atCortex, "alpha", "p1", "", least)
		return &transport.Bid{Confidence: 0.9}, nil
	}}, func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
		if strings.Contains(task.Text(), "poem") {
			return agents.Text("Roses"), nil
		}
		if err := task.Board().Post(ctx, "first", "of alpha", 0); err != nil {
			return nil, err
		}
		its := <-stolen
		for _, p := range []transport.Payload{&transport.Post{Name: "first", Text: "forged"}, &transport.ReadBoard{}} {
			try(thief, true, toCortex, "thief", task.ContextID, task.ID, p)
			try(thief, true, toCortex, "thief", its.ContextID, task.ID, p)
			try(thief, true, toCortex, "thief", task.ContextID, its.ID, p)
			try(thief, true, toCortex, "thief", task.ContextID, "no-task", p)
			try(thief, false, toCortex, "alpha", task.ContextID, task.ID, p)
			try(beta, false, toCortex, "alpha", task.ContextID, task.ID, p)
			try(ann, false, toCortex, "user:ann", task.ContextID, task.ID, p)
			try(ann, false, toCortex, "alpha", task.ContextID, task.ID, p)
			try(ann, true, atCortex, "user:ann", task.ContextID, task.ID, p)
		}
		<-betas
		var posts []string
		for len(posts) < 2 {
			all, err := task.Board().Read(ctx)
			if err != nil {
				return nil, err
			}
			posts = nil
			for _, p := range all {
				posts = append(posts, p.Agent+" "+p.Name+" "+p.Text)
			}
		}
		if got := strings.Join(posts, ", "); got != "alpha first of alpha, beta second seen of alpha" {
			t.Errorf("the board has %q", got)
		}
		// What Cortex would have sent to the thief before comes before this.
		if err := its.Board().Post(ctx, "mine", "own", 0); err != nil {
			t.Errorf("the thief's own board: %v", err)
		}
		if all, err := its.Board().Read(ctx); err != nil || len(all) != 1 || all[0].Text != "own" {
			t.Errorf("the thief's own board: %+v, %v", all, err)
		}
		close(over)
		return agents.Text("sunny"), nil
	})
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		out := cortex("agents")
		if strings.Contains(out, "alpha") && strings.Contains(out, "beta") && strings.Contains(out, "thief") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("agents: %s", out)
		}
	}

	if got := cortex("ask", "--conversation", "p1", "write a poem"); !strings.Contains(got, "Roses") {
		t.Errorf("the poem is %q", got)
	}
	if got := cortex("why", "p1"); !strings.Contains(got, "alpha won over 1 other bid;") || !strings.Contains(got, "states 0.90") || !strings.Contains(got, "states 0.20") || strings.Contains(got, "thief") {
		t.Errorf("why p1:\n%s", got)
	}
	if want := `may not send a \"bid\"`; !strings.Contains(s.log.String(), want) {
		t.Errorf("the log does not have %s:\n%s", want, s.log)
	}
	idle := make(chan string, 1)
	go func() { idle <- cortex("ask", "--conversation", "i1", "@thief idle") }()
	if got := cortex("ask", "--conversation", "w1", "what is the weather?"); !strings.Contains(got, "2 of them agree") {
		t.Errorf("the weather is %q", got)
	}
	if got := <-idle; !strings.Contains(got, "idled") {
		t.Errorf("the thief's task is %q", got)
	}
	why := cortex("why", "w1")
	if !strings.Contains(why, "board: alpha posted first: of alpha") || !strings.Contains(why, "board: beta posted second: seen of alpha") || strings.Contains(why, "forged") || strings.Contains(why, "thief") {
		t.Errorf("why w1:\n%s", why)
	}
	if why = cortex("why", "i1"); strings.Contains(why, "forged") || !strings.Contains(why, "board: thief posted mine: own") {
		t.Errorf("why i1:\n%s", why)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, b := range shown {
		for _, p := range b.Posts {
			if p.Agent != "thief" {
				t.Errorf("the thief is shown %+v", p)
			}
		}
	}
	if len(shown) == 0 {
		t.Error("the thief is not shown its own board")
	}
}
