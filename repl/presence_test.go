package repl

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestPresence(t *testing.T) {
	p := newPresence()
	apply := func(payload transport.Payload) string {
		ch := p.apply(&transport.Event{Payload: payload})
		if ch == nil {
			return ""
		}
		text, _ := changeText(*ch)
		return text
	}
	gone := func(id, instance string, why transport.GoneReason) *transport.Card {
		return &transport.Card{AgentID: id, Instance: instance, Gone: why}
	}
	for i, tc := range []struct {
		payload transport.Payload
		want    string
	}{
		{clienttest.Card("clock", "1", "Old"), ""}, // present at the start
		{&transport.Synced{}, ""},
		{clienttest.Card("clock", "1", "Old"), ""}, // refreshed
		{clienttest.Card("echo", "1", "Echoes back. Always."), "echo joined (Echoes back)"},
		{clienttest.Card("bare", "1", ""), "bare joined"},
		{clienttest.Card("echo", "2", "Echoes back. Always."), ""}, // another instance
		{gone("echo", "1", transport.GoneLeft), ""},
		{gone("echo", "1", transport.GoneLeft), ""}, // again
		{clienttest.Card("echo", "2", "Echoes louder."), "echo changed (Echoes louder)"},
		{clienttest.Card("echo", "3", "Something else"), "warning: two different cards under one id echo; give each agent its own name"},
		{gone("echo", "3", transport.GoneExpired), ""},
		{gone("echo", "2", transport.GoneExpired), "echo is gone: nothing was heard of it"},
		{clienttest.Card("cl0ck", "1", "The time"), "cl0ck joined: it looks like clock"},
		{clienttest.Card("usеr", "1", ""), "usеr joined: it looks like user"}, // with a Cyrillic е
		{gone("usеr", "1", transport.GoneLeft), "usеr left"},
		{gone("clock", "1", transport.GoneLeft), "clock left"},
		{gone("cl0ck", "1", transport.GoneLeft), "cl0ck left"},
		{gone("nobody", "1", transport.GoneLeft), ""},
		{&transport.Opaque{}, ""},
	} {
		if got := apply(tc.payload); got != tc.want {
			t.Errorf("step %d: %q, want %q", i, got, tc.want)
		}
	}
	if diff := cmp.Diff([]string{"bare"}, p.ids()); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	// The board shows the mark, too.
	b := board{now: time.Now, named: p.named}
	task := &a2a.Task{ID: "t", Metadata: map[string]any{transport.MetaAgentID: "bar3"}}
	if got, want := b.started(task).agent, "bar3"; got != want {
		t.Errorf("it is shown as %q, want %q", got, want)
	}
	task.Metadata[transport.MetaAgentID] = "Bare"
	if got, want := b.started(task).agent, "Bare (looks like bare)"; got != want {
		t.Errorf("it is shown as %q, want %q", got, want)
	}
}

func TestHerald(t *testing.T) {
	many := func(kind changeKind, n int) (all []change) {
		for i := range n {
			all = append(all, change{kind: kind, agent: fmt.Sprintf("a%d", i)})
		}
		return all
	}
	for _, tc := range []struct {
		name    string
		changes [][]change // one element every 300 ms
		want    []string
	}{
		{"one", [][]change{many(joined, 1)}, []string{"100ms a0 joined"}},
		{"few", [][]change{many(joined, 5)}, []string{"100ms a0 joined", "100ms a1 joined", "100ms a2 joined", "100ms a3 joined", "100ms a4 joined"}},
		{"many", [][]change{many(joined, 12)}, []string{"1s 12 agents joined"}},
		{"back at once", [][]change{append(many(expired, 1), many(joined, 1)...)}, nil},
		{"gone", [][]change{many(expired, 1)}, []string{"100ms a0 is gone: nothing was heard of it"}},
		{"many gone", [][]change{many(expired, 12)}, []string{"1s 12 agents gone"}},
		{"many of several kinds", [][]change{append(many(joined, 5), many(left, 2)...)}, []string{"1s 5 agents joined, 2 agents left"}},
		{
			"more within the second",
			[][]change{many(joined, 3), many(left, 4)},
			[]string{"100ms a0 joined", "100ms a1 joined", "100ms a2 joined", "1s 4 more agents left"},
		},
		{"later", [][]change{many(joined, 4), nil, nil, nil, many(left, 4)}, []string{
			"100ms a0 joined", "100ms a1 joined", "100ms a2 joined", "100ms a3 joined",
			"1.3s a0 left", "1.3s a1 left", "1.3s a2 left", "1.3s a3 left",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []string
				h := changePrinter{tell: func(text, _ string) { got = append(got, time.Since(start).String()+" "+text) }}
				ctx, stop := context.WithCancel(t.Context())
				changes, done := make(chan change), make(chan struct{})
				go func() {
					defer close(done)
					h.run(ctx, changes)
				}()
				for _, all := range tc.changes {
					for _, c := range all {
						changes <- c
					}
					<-time.After(300 * time.Millisecond)
				}
				<-time.After(5 * time.Second)
				stop()
				<-done
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		})
	}
}
