package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestPrintEvent(t *testing.T) {
	at := time.Date(2026, 11, 20, 18, 1, 2, 0, time.Local)
	record := func(state registry.State, instances int) *registry.Record {
		return &registry.Record{
			ID: "echo", State: state, Version: "1.2.0", Card: &a2a.AgentCard{Description: "Says\x1b[31m it\nagain."},
			Instances: make([]registry.Instance, instances),
		}
	}
	for _, tt := range []struct {
		event registry.Event
		want  string
	}{
		{registry.Event{Kind: registry.EventRegistered, Record: record("active", 1)}, "registered            echo                      Says it again."},
		{registry.Event{Kind: registry.EventUpdated, Record: record("active", 1)}, "updated               echo                      version 1.2.0"},
		{registry.Event{Kind: registry.EventSeen, Record: record("active", 1)}, "seen                  echo"},
		{
			registry.Event{Kind: registry.EventCapabilities, Added: []string{"a", "b\x1b]0;x\x07"}, Removed: []string{"c"}, Record: record("active", 1)},
			"capabilities-changed  echo                      +skill a, +skill b, -skill c",
		},
		{registry.Event{Kind: registry.EventDraining, Record: record("draining", 1)}, "draining              echo"},
		{registry.Event{Kind: registry.EventDraining, Record: record("active", 2)}, "draining              echo                      one of 2 instances"},
		{registry.Event{Kind: registry.EventJoined, Record: record("active", 2)}, "instance-joined       echo                      2 instances"},
		{
			registry.Event{Kind: registry.EventLeft, Reason: registry.ReasonExpired, Record: record("active", 1)},
			"instance-left         echo                      lease ended, 1 instance",
		},
		{
			registry.Event{Kind: registry.EventDeregistered, Reason: registry.ReasonMissed, Record: record("gone", 0)},
			"deregistered          echo                      missed heartbeats",
		},
		{registry.Event{Kind: registry.EventRefused, Reason: "so\u009b", Record: record("refused", 1)}, "refused               echo                      so"},
	} {
		tt.event.AgentID, tt.event.Time = "echo", at
		var out bytes.Buffer
		printEvent(&out, tt.event, view.NewLookalikes(nil))
		if d := cmp.Diff("18:01:02  "+tt.want+"\n", out.String()); d != "" {
			t.Errorf("%s differs (-want +got):\n%s", tt.event.Kind, d)
		}
	}
	var out bytes.Buffer
	many := registry.Event{Kind: registry.EventCapabilities, AgentID: strings.Repeat("x", 256), Added: make([]string, 200), Record: record("active", 1)}
	if printEvent(&out, many, view.NewLookalikes(nil)); out.Len() > 400 {
		t.Errorf("a line of %d bytes, want it bounded", out.Len())
	}
}

// TestOpening checks that known agents that are not present are not shown, and present ones only once, before their changes.
func TestOpening(t *testing.T) {
	var shown []string
	synced := make(chan struct{})
	o := &untilSynced{synced: synced, held: map[string][]registry.Event{}, show: func(e registry.Event) {
		shown = append(shown, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.AgentID, " ", e.Reason)))
	}}
	tell := func(kind registry.EventKind, id string, r registry.Record) {
		o.hear(registry.Event{Kind: kind, AgentID: id, Reason: r.Refused, Record: &r})
	}
	tell(registry.EventRegistered, "old", registry.Record{})
	tell(registry.EventRegistered, "two", registry.Record{})
	tell(registry.EventConflict, "two", registry.Record{})
	tell(registry.EventRegistered, "new", registry.Record{})
	tell(registry.EventRefused, "new", registry.Record{Refused: "so"})
	tell(registry.EventDeregistered, "old", registry.Record{State: registry.StateGone})
	tell(registry.EventUpdated, "two", registry.Record{})
	if shown != nil {
		t.Errorf("%q is shown before all is known", shown)
	}
	close(synced)
	tell(registry.EventDeregistered, "two", registry.Record{State: registry.StateGone})
	o.end()
	want := []string{"registered new", "refused new so", "registered two", "conflict two", "deregistered two"}
	if d := cmp.Diff(want, shown); d != "" {
		t.Errorf("shown (-want +got):\n%s", d)
	}
}

// TestOutage checks that agents are not removed while the connection is lost, and are removed if they stay silent after it is restored.
func TestOutage(t *testing.T) {
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	r := registry.New(registry.Config{Now: func() time.Time { return now }})
	conn := new(outage)
	conn.onConn(false, nil) // before there is a registry
	conn.tell(r)
	r.Apply(&transport.Event{Payload: &transport.Card{
		AgentID: "echo", Instance: "1", Heartbeat: 30 * time.Second, Card: &a2a.AgentCard{Name: "echo"},
	}})
	pass := func(d time.Duration) (there bool) {
		for range d / (5 * time.Second) {
			now = now.Add(5 * time.Second)
			r.Sweep(now)
		}
		_, there = r.Snapshot().Get("echo")
		return there
	}
	conn.onConn(false, nil)
	if !pass(10 * time.Minute) {
		t.Error("the agent is gone although nobody could hear it")
	}
	conn.onConn(true, nil)
	if !pass(85 * time.Second) {
		t.Error("the agent is gone within its grace")
	}
	if pass(5 * time.Second) {
		t.Error("the agent is there after its grace")
	}
}
