package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

func testEmpty(t *testing.T, s storage.Store) {
	if got := load(t, s, "", "nobody", 0); len(got) != 0 {
		t.Errorf("a conversation nobody wrote to has %d entries", len(got))
	}
	if got := load(t, s, "", "nobody", 7); len(got) != 0 {
		t.Errorf("a conversation nobody wrote to has %d entries after 7", len(got))
	}
	for info, err := range s.Contexts(t.Context(), "") {
		t.Errorf("Contexts of an empty store yields %v, %v", info, err)
	}
}

func testRoundTrip(t *testing.T, s storage.Store) {
	var last conversation.Version
	var want []*conversation.Entry
	for i, p := range payloads() {
		e := &conversation.Entry{
			Seq:  uint64(i + 1),
			Time: epoch.Add(time.Duration(i)),
			Turn: "turn-1",
			Cause: &transport.Event{
				ID: fmt.Sprintf("e-%d", i), Time: epoch.In(time.FixedZone("", 3600)), From: "user:ünï", To: transport.Cortex,
				Tenant: "t", ContextID: "c", TaskID: "task-1", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				DeliverAt: epoch.Add(time.Hour), Payload: p,
			},
			Decision: &llm.Decision{
				Kind: llm.KindDelegate, Say: "one <moment> & \"quotes\"\n", Reason: "because",
				Delegations: []llm.Delegation{{
					ID: "1", Agent: "echo", Skill: "say", Task: "say it", Input: json.RawMessage(`{"a":[1,2.5,"x"]}`), DependsOn: []string{"0"},
				}},
				Model: "m", Usage: llm.Usage{Input: 3, Cached: 2, Output: 1}, Repairs: 1,
			},
			Roster: roster(t), Summary: &llm.Summary{Text: "they met", Turns: 3, Model: "m", Usage: llm.Usage{Input: 2, Cost: 0.1}}, Omitted: 1,
			Shortlist: []conversation.Shortlisted{{ID: "echo", Skill: "say", Score: 0.75, Reason: "fits"}},
			Terms:     map[string]conversation.Terms{"1": {Type: "say_it", Timeout: time.Minute, Output: json.RawMessage(`{"type":"string"}`)}},
			Consent:   "echo is to say it. Yes?", Asked: epoch.Add(time.Hour), Rejected: "the result is no string", Withheld: map[a2a.TaskID]string{"task-2": "a rule denies it"},
			Retries:  map[a2a.TaskID]conversation.Retry{"task-3": {Agent: "other", Terms: conversation.Terms{Timeout: time.Second}, Why: "no answer came in time"}},
			Verdicts: []evaluate.Verdict{{Evaluator: "brief", Score: 0.25, Advice: "too long", Action: evaluate.Fail, Round: 1}},
			Patterns: &conversation.Patterns{Auctions: []conversation.Auction{{
				Delegation: "1", Chosen: "other", Winner: "echo", Bids: []conversation.Bid{{Agent: "echo", Confidence: 0.75, Cost: 1, Seconds: 2, Done: 3.5, Failed: 1, Score: 0.5}, {Agent: "other", Why: "no bid came in time"}},
			}}, Swarm: &conversation.Swarm{Round: 2, Rounds: 3, Tokens: 1000, Task: "say it"}, Ended: conversation.SwarmAgreed},
			Usage: llm.Usage{Input: 5, Cached: 1, Output: 2, Cost: 0.30000000000000004},
			Life:  "l-1", Heard: "yes", Waited: []a2a.TaskID{"task-4"}, Unfetched: []a2a.TaskID{"task-5"},
			Failure: "no such agent", Sent: epoch.Add(time.Second), Deadline: epoch.Add(5*time.Minute + time.Nanosecond), ReplyBy: epoch.Add(24 * time.Hour),
		}
		wantAllSet(t, e)
		last = add(t, s, "t", "c", last, e)
		e.Version = last
		want = append(want, e)
	}
	bare := &conversation.Entry{
		Seq: uint64(len(want) + 1), Time: epoch,
		Cause: &transport.Event{ID: "e", Time: epoch, From: "echo", ContextID: "c", Tenant: "t", Payload: &transport.Deadline{At: epoch}},
	}
	bare.Version = add(t, s, "t", "c", last, bare)
	if d := diff(append(want, bare), load(t, s, "t", "c", 0)); d != "" {
		t.Errorf("loaded entries differ (-want +got):\n%s", d)
	}
}

func roster(t *testing.T) *conversation.Roster {
	t.Helper()
	r := &conversation.Roster{}
	const agents = `{"all": true, "left": ["gone"], "joined": [{"ID": "echo", "Seen": true, "Card": {"name": "Echo",
		"skills": [{"id": "say", "name": "Say", "tags": ["x"], "examples": ["say it"]}]}}]}`
	if err := json.Unmarshal([]byte(agents), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// wantAllSet checks that the round trip covers every field of Entry.
func wantAllSet(t *testing.T, e *conversation.Entry) {
	t.Helper()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[conversation.Entry]()) {
		if f.Name != "Version" && f.Tag.Get("json") != "-" && reflect.ValueOf(*e).FieldByIndex(f.Index).IsZero() {
			t.Fatalf("the suite's entry leaves %s empty: set it", f.Name)
		}
	}
}

// payloads returns one payload of each kind, and some that this build does not know or cannot read.
func payloads() []transport.Payload {
	said := &a2a.Message{
		ID: "m", ContextID: "c", TaskID: "task-1", Role: a2a.MessageRoleUser, ReferenceTasks: []a2a.TaskID{"task-0"},
		Metadata: map[string]any{"hops": 2.0, "ancestors": []any{"a", "b"}},
		Parts: a2a.ContentParts{
			a2a.NewTextPart("text\x00with ☃ and \u2028"), a2a.NewRawPart([]byte{0, 1, 255}), a2a.NewDataPart(map[string]any{"k": []any{1.0, nil}}),
			{Content: a2a.URL("https://example.com/f"), Filename: "f", MediaType: "image/png", Metadata: map[string]any{"w": true}},
		},
	}
	artifact := &a2a.Artifact{ID: "art", Name: "report", Description: "d", Parts: a2a.ContentParts{a2a.NewTextPart("made")}}
	at := epoch
	status := a2a.TaskStatus{State: a2a.TaskStateInputRequired, Message: said, Timestamp: &at}
	return []transport.Payload{
		said,
		&a2a.Task{ID: "task-1", ContextID: "c", Status: status, Artifacts: []*a2a.Artifact{artifact}, History: []*a2a.Message{said}},
		&a2a.TaskStatusUpdateEvent{TaskID: "task-1", ContextID: "c", Status: status},
		&a2a.TaskArtifactUpdateEvent{TaskID: "task-1", ContextID: "c", Artifact: artifact, Append: true, LastChunk: true},
		&transport.Card{AgentID: "echo", Instance: "1", TTL: 90 * time.Second, Card: &a2a.AgentCard{
			Name: "echo", Description: "says it again", Version: "1.0", Skills: []a2a.AgentSkill{{ID: "say", Name: "Say", Tags: []string{"x"}}},
		}},
		&transport.Synced{},
		&transport.Deadline{At: epoch},
		&transport.Cancel{TaskID: "task-1", Turn: "m", Reason: "enough"},
		&transport.Share{With: []string{"user:bob"}},
		&transport.Forget{AgentID: "echo"},
		&transport.Delta{Turn: "m", Attempt: "1", Text: "par"},
		&transport.Tender{ID: "t-1", Skill: "say", Task: "say it", Until: epoch},
		&transport.Post{Name: "plan", Text: "first", TTL: time.Minute},
		&transport.Bid{Tender: "t-1", Confidence: 0.5},
		&transport.Opaque{Kind: "telepathy", Version: "9", Data: []byte("\x00not JSON")},
		&transport.Opaque{Kind: "message", Version: "1", Data: []byte("{broken")},
		&transport.Opaque{Kind: "message", Version: "1", Data: []byte{}},
	}
}

func testVersions(t *testing.T, s storage.Store) {
	versions := fill(t, s, "", "c", 10)
	wantSeqs(t, load(t, s, "", "c", 0), 1, 10)
	for i, v := range versions {
		after := load(t, s, "", "c", v)
		wantSeqs(t, after, uint64(i+2), 10)
		for k, e := range after {
			if e.Version != versions[i+1+k] {
				t.Fatalf("entry %d is loaded with version %d, Append returned %d", e.Seq, e.Version, versions[i+1+k])
			}
		}
	}
	if got := load(t, s, "", "c", versions[9]+1000); len(got) != 0 {
		t.Errorf("there are %d entries after the end", len(got))
	}
}

func testConflict(t *testing.T, s storage.Store) {
	versions := fill(t, s, "", "c", 3)
	other := fill(t, s, "", "other", 2)
	for _, stale := range []conversation.Version{0, versions[0], versions[1], versions[2] + 1000, other[1]} {
		wantConflict(t, s, "", "c", stale)
	}
	wantConflict(t, s, "", "new", versions[2])
	wantSeqs(t, load(t, s, "", "c", 0), 1, 3)
	if got := load(t, s, "", "new", 0); len(got) != 0 {
		t.Errorf("a refused first entry was stored")
	}
	add(t, s, "", "c", versions[2], entry(4, "goes on"))
	wantSeqs(t, load(t, s, "", "c", 0), 1, 4)
}

func testOneWinner(t *testing.T, s storage.Store) {
	const rounds, writers = 20, 8
	var last conversation.Version
	for round := range rounds {
		won := make([]conversation.Version, writers)
		errs := make([]error, writers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				<-start
				won[w], errs[w] = s.Append(t.Context(), "", "c", last, entry(uint64(round+1), fmt.Sprintf("%d", w)))
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case errors.Is(err, storage.ErrConflict):
			case err != nil:
				t.Fatalf("writer %d: %v", w, err)
			case winner >= 0:
				t.Fatalf("round %d: writers %d and %d both won", round, winner, w)
			default:
				winner = w
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		got := load(t, s, "", "c", last)
		if len(got) != 1 || got[0].Version != won[winner] || text(got[0]) != fmt.Sprint(winner) {
			t.Fatalf("round %d: the log has not exactly the entry of the winner %d", round, winner)
		}
		last = won[winner]
	}
}

func testCompetingWriters(t *testing.T, s storage.Store) {
	const writers, each = 6, 15
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for done := 0; done < each; {
				entries, err := tryLoad(t.Context(), s, "", "c", 0)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				var last conversation.Version
				for i, e := range entries {
					if e.Seq != uint64(i+1) {
						t.Errorf("writer %d read Seq %d at place %d", w, e.Seq, i+1)
						return
					}
					last = e.Version
				}
				switch _, err := s.Append(t.Context(), "", "c", last, entry(uint64(len(entries)+1), "x")); {
				case err == nil:
					done++
				case !errors.Is(err, storage.ErrConflict):
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantSeqs(t, load(t, s, "", "c", 0), 1, writers*each)
}

// oddIDs are valid ids that may be difficult as file or subject names of a store.
func oddIDs() []string {
	return []string{
		"plain", "Plain", "a.b", "a.b.c", "a*", "*", ">", "a>", ".", "..", "a..b", "=", "==", "=2A", "_", "__", "-", "%2A", "a/b", "a:b", "$JS", "ü", "😀", "日本",
		strings.Repeat("x", transport.MaxID), strings.Repeat("*", transport.MaxID), strings.Repeat("é", transport.MaxID/2),
	}
}

func testSeparate(t *testing.T, s storage.Store) {
	ids, tenants := oddIDs(), []string{"", "t", "_", "=", "a.b", "*", strings.Repeat(">", transport.MaxID)}
	last := map[[2]string]conversation.Version{}
	for seq := range uint64(2) {
		for _, tenant := range tenants {
			for _, id := range ids {
				k := [2]string{tenant, id}
				last[k] = add(t, s, tenant, id, last[k], entry(seq+1, tenant+"|"+id))
			}
		}
	}
	for _, tenant := range tenants {
		for _, id := range ids {
			got := load(t, s, tenant, id, 0)
			wantSeqs(t, got, 1, 2)
			for _, e := range got {
				if text(e) != tenant+"|"+id {
					t.Fatalf("tenant %q, conversation %q has an entry of %q", tenant, id, text(e))
				}
			}
		}
	}
}

func testLeavingEarly(t *testing.T, s storage.Store) {
	versions := fill(t, s, "", "c", 600)
	for _, leave := range []uint64{1, 2, 300, 599} {
		for e, err := range s.Load(t.Context(), "", "c", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Seq == leave {
				break
			}
		}
	}
	add(t, s, "", "c", versions[599], entry(601, "goes on"))
	wantSeqs(t, load(t, s, "", "c", 0), 1, 601)
	for range s.Contexts(t.Context(), "") {
		break
	}
}

// testCancelled checks that an interrupted load is not mistaken for a short conversation.
func testCancelled(t *testing.T, s storage.Store) {
	last := fill(t, s, "", "c", 600)[599]
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, id := range []string{"c", "nobody"} {
		if entries, err := tryLoad(done, s, "", id, 0); !errors.Is(err, context.Canceled) || len(entries) > 0 {
			t.Errorf("Load(%s) with a cancelled context yields %d entries and %v, want none and context.Canceled", id, len(entries), err)
		}
	}
	for _, at := range []uint64{1, 100, 599} {
		ctx, cancel := context.WithCancel(t.Context())
		n := uint64(0)
		var failed error
		for _, err := range s.Load(ctx, "", "c", 0) {
			if failed = err; err != nil {
				break
			}
			if n++; n == at {
				cancel()
			}
		}
		cancel()
		if failed == nil && n < 600 {
			t.Errorf("cancelled at entry %d, Load ended after %d entries without an error", at, n)
		}
		if failed != nil && !errors.Is(failed, context.Canceled) {
			t.Errorf("cancelled at entry %d, Load ended with %v", at, failed)
		}
	}
	if v, err := s.Append(done, "", "c", last, entry(601, "x")); err == nil {
		t.Errorf("Append with a cancelled context = %d, nil", v)
	}
}

func testLong(t *testing.T, s storage.Store) {
	const n = 3000
	versions := fill(t, s, "", "c", n)
	wantSeqs(t, load(t, s, "", "c", 0), 1, n)
	wantSeqs(t, load(t, s, "", "c", versions[n-2]), n, n)
}

func testBig(t *testing.T, s storage.Store) {
	words := strings.Repeat("sixteen letters ", transport.MaxText/16)
	var last conversation.Version
	for seq := range uint64(3) {
		last = add(t, s, "", "c", last, entry(seq+1, words))
	}
	got := load(t, s, "", "c", 0)
	wantSeqs(t, got, 1, 3)
	for _, e := range got {
		if text(e) != words {
			t.Fatalf("entry %d came back with %d bytes of text, want %d", e.Seq, len(text(e)), len(words))
		}
	}
}

func testNothingShared(t *testing.T, s storage.Store) {
	given := entry(1, "as it was")
	given.Decision = &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "1", Input: json.RawMessage(`"in"`)}}}
	spoil := func(e *conversation.Entry) {
		e.Failure, e.Cause.From = "spoilt", "spoilt"
		m := e.Cause.Payload.(*a2a.Message)
		m.Parts[0].Content = a2a.Text("spoilt")
		e.Decision.Delegations[0].Agent = "spoilt"
		copy(e.Decision.Delegations[0].Input, `"ou"`)
	}
	add(t, s, "", "c", 0, given)
	if given.Version != 0 {
		t.Errorf("Append changed the entry's version to %d", given.Version)
	}
	spoil(given)
	first := load(t, s, "", "c", 0)
	spoil(first[0])
	got := load(t, s, "", "c", 0)[0]
	if got.Failure != "" || got.Cause.From != "user" || text(got) != "as it was" || got.Decision.Delegations[0].Agent != "" ||
		string(got.Decision.Delegations[0].Input) != `"in"` {
		t.Errorf("the stored entry changed with the one given or loaded: %+v %+v", got.Cause, got.Decision)
	}
}

// testUnwritable checks that an entry that can never be stored has another error than one that cannot be stored now.
func testUnwritable(t *testing.T, s storage.Store) {
	e := &conversation.Entry{
		Seq: 1, Time: time.Now().In(time.FixedZone("", 24*60*60)), // JSON has no such zone
		Cause: &transport.Event{ID: "e", From: "user", ContextID: "c", Payload: &transport.Deadline{}},
	}
	if _, err := s.Append(t.Context(), "", "c", 0, e); !errors.Is(err, transport.ErrInvalid) {
		t.Errorf("Append of an entry that cannot be written = %v, want ErrInvalid", err)
	}
	if got := load(t, s, "", "c", 0); len(got) != 0 {
		t.Errorf("%d entries were stored, want none", len(got))
	}
}
