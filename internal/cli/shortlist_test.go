package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// newLinked returns a link to the store of a server of its own.
func newLinked(t *testing.T) *link {
	t.Helper()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	bus, err := nats.Dial(t.Context(), &nats.Options{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	store, err := jetstore.Open(t.Context(), bus.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &link{bus: bus, store: store}
}

// TestPromptShowsTheShortlist checks that a preview among many agents shows which ones were chosen, and how well they fit.
func TestPromptShowsTheShortlist(t *testing.T) {
	bake := []a2a.AgentSkill{{ID: "bake", Name: "Bake", Description: "Bakes bread"}}
	list := []registry.WellKnown{{ID: "baker", Card: &a2a.AgentCard{Name: "baker", Description: "Bakes bread and cakes", Skills: bake}}}
	for i := range 60 {
		id := fmt.Sprint("clerk", i)
		list = append(list, registry.WellKnown{ID: id, Card: &a2a.AgentCard{Name: id, Description: "Files forms"}})
	}
	b := &backend{link: newLinked(t), registry: registry.New(registry.Config{WellKnown: list}), isSet: (&settings{nats: "elsewhere"}).joined}
	text, err := b.prompt(t.Context(), "c", "who can bake bread? Or ask clerk7")
	if err != nil {
		t.Fatal(err)
	}
	_, shortlist, ok := strings.Cut(text, "── shortlist · ")
	for _, want := range []string{`^\d+ of 61 agents\n`, `(?m)^baker +(1\.00|0\.[5-9]\d) +bake +fits$`, `(?m)^clerk7 +[01]\.\d\d +named$`} {
		if !ok || !regexp.MustCompile(want).MatchString(shortlist) {
			t.Errorf("the preview has no %s:\n%s", want, text)
		}
	}
	b.registry = registry.New(registry.Config{WellKnown: list[:40]})
	if text, err = b.prompt(t.Context(), "c", "who can bake bread?"); err != nil || strings.Contains(text, "shortlist") {
		t.Errorf("the preview of 40 agents: %v\n%s", err, text)
	}
}

// TestWhyShowsTheShortlist checks that /why shows what a decision was offered, once, and what the model searched for.
func TestWhyShowsTheShortlist(t *testing.T) {
	l := newLinked(t)
	offered := []conversation.Shortlisted{
		{ID: "baker", Skill: "bake", Score: 0.876, Reason: "fits"},
		{ID: "long-name\x1b[2J", Skill: "file", Score: 0.2, Reason: "close"},
		{ID: "clerk", Reason: "in use"},
	}
	entry := func(seq uint64, d *llm.Decision) *conversation.Entry {
		id := fmt.Sprint("m", seq)
		return &conversation.Entry{
			Seq: seq, Time: time.Unix(0, 0), Turn: "m1", Decision: d, Shortlist: offered,
			Cause: &transport.Event{
				ID: id, Time: time.Unix(0, 0), From: "user", ContextID: "c",
				Payload: &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("bread")}},
			},
		}
	}
	first := entry(1, &llm.Decision{
		Kind: llm.KindDelegate, Reason: "it fits", Model: "m", Searches: []string{"bake bread", "x\ny"},
		Reads:       []llm.Read{{Key: "a2a/baker/0b5f2c9e/result", From: 3}, {Key: "f1", From: -20}, {Key: "f1\n", Find: "fl\nour", From: 2}},
		Delegations: []llm.Delegation{{ID: "a", Agent: "baker", Task: "a loaf"}},
	})
	second := entry(2, &llm.Decision{Kind: llm.KindRespond, Say: "done", Model: "m"})
	second.Cause.From, second.Cause.TaskID = "baker", "t"
	second.Cause.Payload = &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}}
	first.Consent = "baker is to bake. Yes?"
	failed := entry(3, nil)
	failed.Cause.From, failed.Cause.TaskID, failed.Failure = "baker", "t", "nothing came of it"
	failed.Cause.Payload, failed.Shortlist = second.Cause.Payload, offered[:1]
	version := conversation.Version(0)
	for _, e := range []*conversation.Entry{first, second, failed} {
		var err error
		if version, err = l.store.Append(t.Context(), "", "c", version, e); err != nil {
			t.Fatal(err)
		}
	}
	b := &backend{link: l, registry: registry.New(registry.Config{})}
	got, err := b.why(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	want := `1. delegate
   → baker: a loaf
   asked for your yes first: nothing was sent with this decision
   because it fits
   looked for: "bake bread", "x y"
   read: a2a/baker/0b5f2c9e/result, from line 3
   read: f1, the last 20 lines
   read: f1, lines with "fl our"
   out of these agents:
     baker      0.88  bake  fits
     long-name  0.20  file  close
     clerk      0.00        in use
   by m
2. respond
   out of the same 3 agents
   by m
failed   nothing came of it
   out of these agents:
     baker  0.88  bake  fits`
	if got != want {
		t.Errorf("why =\n%s\nwant\n%s", got, want)
	}
}
