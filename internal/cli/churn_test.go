package cli

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/internal/directory"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

const (
	crowdSize  = 10_000
	crowdSteps = 60  // simulated seconds
	crowdOps   = 100 // changes of agents in each second
)

// craft returns the skill of an agent of the crowd: a unique word, and the revision of its card.
func craft(i, revision int) string {
	letters := make([]byte, 0, 8)
	for n := i*7 + revision*70_001; len(letters) < 6; n /= 20 {
		letters = append(letters, "bcdfghjklmnpqrstvwxz"[n%20], "aeiou"[n%5])
	}
	return string(letters)
}

func craftsman(i, revision int) *transport.Card {
	id := fmt.Sprintf("crowd_%05d", i)
	word := craft(i, revision)
	return &transport.Card{
		AgentID: id, Instance: "1", TTL: 10 * time.Minute, Heartbeat: 3 * time.Minute,
		Card: &a2a.AgentCard{
			Name: id, Description: "Does the " + word, Version: fmt.Sprintf("1.%d.0", revision),
			Skills: []a2a.AgentSkill{{ID: word, Name: word, Description: "Work with " + word, Tags: []string{word}}},
		},
	}
}

// TestCrowd lets 10,000 agents join, change, drain and leave at random for a minute of simulated time, while turns run. In the end the registry, the
// index and the prompt agree with the latest announcements, and every turn was answered once.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := memory.New(nil)
		defer bus.Close()
		d := directory.New(registry.Config{})
		store := memstore.New()
		orch, err := cortex.New(cortex.Config{
			Transport: bus, Store: store, Decider: fake.New(nil), Router: d.Index, TaskTimeout: 5 * time.Second,
			Agents: d.Routable,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := orch.Run(ctx); err != nil {
				t.Errorf("Run = %v", err)
			}
		})
		worker := serveWorker(ctx, t, bus, &running)
		d.Registry.Apply(&transport.Event{Payload: worker})

		const seed = 4
		random := rand.New(rand.NewPCG(seed, seed))
		truth := map[int]int{} // agent: revision of its card
		draining := map[int]bool{}
		asked := 0
		for second := range crowdSteps {
			happens := make([]int, crowdOps)
			for n := range happens {
				happens[n] = random.IntN(crowdSize)
			}
			if second == 0 {
				happens = random.Perm(crowdSize) // all join
			}
			for _, i := range happens {
				revision, there := truth[i]
				switch op := random.IntN(10); {
				case !there:
					truth[i] = revision
					delete(draining, i)
					d.Registry.Apply(&transport.Event{Payload: craftsman(i, 0)})
				case op < 5:
					truth[i] = revision + 1
					delete(draining, i)
					d.Registry.Apply(&transport.Event{Payload: craftsman(i, revision+1)})
				case op < 6:
					c := craftsman(i, revision)
					c.Draining = true
					draining[i] = true
					d.Registry.Apply(&transport.Event{Payload: c})
				case op < 8:
					d.Registry.Apply(&transport.Event{Payload: craftsman(i, revision)}) // a heartbeat
					delete(draining, i)
				default:
					delete(truth, i)
					delete(draining, i)
					d.Registry.Apply(&transport.Event{Payload: &transport.Card{AgentID: fmt.Sprintf("crowd_%05d", i), Instance: "1", Gone: transport.GoneLeft}})
				}
			}
			for n := range 2 {
				text := "polish the silver spoons"
				if n == 1 {
					text = "do the " + craft(random.IntN(crowdSize), 0)
				}
				asked++
				e := &transport.Event{
					ID: fmt.Sprint("m", asked), Time: time.Now(), From: "user", ContextID: fmt.Sprint("c", asked%7),
					Payload: &a2a.Message{ID: fmt.Sprint("m", asked), Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
				}
				if err := bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Second)
		}
		<-time.After(30 * time.Second) // until tasks of agents that do not answer have ended
		synctest.Wait()
		stop()
		running.Wait()

		want := []string{worker.AgentID}
		fresh := router.New(nil)
		fresh.Put(worker.AgentID, worker.Card)
		for i, revision := range truth {
			if !draining[i] {
				c := craftsman(i, revision)
				want = append(want, c.AgentID)
				fresh.Put(c.AgentID, c.Card)
			}
		}
		slices.Sort(want)
		var got []string
		for _, a := range d.Routable("") {
			got = append(got, a.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the agents that may be given work differ from the truth (-want +got):\n%.2000s", diff)
		}
		if d.Index.Len() != len(want) {
			t.Errorf("the index has %d agents, want %d", d.Index.Len(), len(want))
		}
		wantFound(t, d, fresh, truth, draining)
		wantAnswered(t, store, asked)
	})
}

// serveWorker runs the one agent that does its tasks.
func serveWorker(ctx context.Context, t *testing.T, bus transport.Transport, running *sync.WaitGroup) *transport.Card {
	card := &transport.Card{AgentID: "agent_silver", Instance: "1", Card: &a2a.AgentCard{
		Name: "agent_silver", Description: "Polishes silver", Version: "1.0.0",
		Skills: []a2a.AgentSkill{{ID: "polish", Name: "Polish silver", Description: "Polishes spoons and other silver", Examples: []string{"polish the silver spoons"}}},
	}}
	inbox, err := bus.Subscribe(ctx, transport.Inbox("", card.AgentID), nil)
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() {
		_ = inbox.Serve(ctx, func(ctx context.Context, e *transport.Event) error {
			return bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
				ID: "r-" + string(e.TaskID), Time: time.Now(), From: card.AgentID, ContextID: e.ContextID, TaskID: e.TaskID,
				Payload: &a2a.Task{ID: e.TaskID, ContextID: e.ContextID, Status: a2a.TaskStatus{
					State:   a2a.TaskStateCompleted,
					Message: &a2a.Message{ID: "rm-" + string(e.TaskID), Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart("shines")}},
				}},
			})
		})
	})
	return card
}

// wantFound compares the index with one that was built from truth alone, and checks prompts.
func wantFound(t *testing.T, d *directory.Directory, fresh *router.Index, truth map[int]int, draining map[int]bool) {
	t.Helper()
	templates, err := prompt.New("")
	if err != nil {
		t.Fatal(err)
	}
	conv := conversation.NewConversation("", "preview")
	for i := 0; i < crowdSize; i += 97 {
		revision, there := truth[i]
		text := "do the " + craft(i, revision)
		got := d.Index.Search(text, nil)
		if diff := cmp.Diff(fresh.Search(text, nil), got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); diff != "" {
			t.Errorf("Search(%q) differs from that of an index made of the truth (-want +got):\n%.1000s", text, diff)
		}
		in, _ := catalog.Preview(conv, text, d.Routable(""), d.Index, time.Now())
		p, err := templates.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("crowd_%05d", i)
		if shown := strings.Contains(p.System, `"`+id+`"`); shown != (there && !draining[i]) {
			t.Errorf("the prompt for %q shows %s: %v, want %v", text, id, shown, there && !draining[i])
		}
		if size := len(p.System); size > 24<<10 {
			t.Errorf("the system text for %q has %d bytes, want at most 24 KB", text, size)
		}
	}
}

// wantAnswered checks that each message was answered once, and those for the working agent by it.
func wantAnswered(t *testing.T, store *memstore.Store, asked int) {
	t.Helper()
	answers := map[string]*conversation.Turn{}
	for c := range 7 {
		conv := conversation.NewConversation("", fmt.Sprint("c", c))
		for e, err := range store.Load(t.Context(), "", conv.ContextID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if err := conv.Apply(e); err != nil {
				t.Fatal(err)
			}
			for _, turn := range conv.Turns {
				if turn.AnswerSeq == e.Seq {
					if answers[turn.ID] != nil {
						t.Errorf("%s was answered twice", turn.ID)
					}
					answers[turn.ID] = turn
				}
			}
		}
	}
	if len(answers) != asked {
		t.Errorf("%d of %d messages were answered", len(answers), asked)
	}
	for id, turn := range answers {
		if turn.User == "polish the silver spoons" && (turn.Kind != llm.KindRespond || turn.Answer != "shines") {
			t.Errorf("%s was answered %s %q, want by the agent that polishes", id, turn.Kind, turn.Answer)
		}
	}
}
