package kit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func nothing(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil }

// takenBy reports whether a name is taken by somebody who has announced it; nil: it is free.
func takenBy(err error, by string) bool {
	return by == "" && err == nil || by != "" && err != nil && strings.Contains(err.Error(), "("+by+")")
}

// A name with a key is taken while its agent is away, also from an agent that was let in, until the key is gone. While that cannot be read, it stays so.
func TestNamesWithKeys(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	var mu sync.Mutex
	var unread error
	keyed := []string{"first"}
	set := func(err error, ids ...string) {
		mu.Lock()
		defer mu.Unlock()
		unread, keyed = err, ids
	}
	looked := make(chan bool, 1)
	hasKeys := func() ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case looked <- true:
		default:
		}
		return keyed, unread
	}
	changed := make(chan string, 10)
	names := kit.NewNames("mine", hasKeys, func(id string) { changed <- id })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- names.Run(ctx, bus, "") }()
	if err := names.Synced(ctx); err != nil {
		t.Fatal(err)
	}
	taken := func(id string) bool {
		out, in := names.Taken(id, false, "choose another"), names.Taken(id, true, "choose another")
		if (out == nil) != (in == nil) || out != nil && !strings.HasSuffix(out.Error(), "keys of its own, which may be away: choose another") {
			t.Errorf("Taken(%s) = %v, and %v for one that was let in", id, out, in)
		}
		return out != nil
	}
	if !taken("first") || taken("second") {
		t.Error("at the start, first is taken and second is not")
	}
	if id := <-changed; id != "first" {
		t.Errorf("%s has changed", id)
	}
	set(nil, "second")
	if ids := []string{<-changed, <-changed}; !slices.Contains(ids, "first") || !slices.Contains(ids, "second") {
		t.Errorf("%v have changed", ids)
	}
	if taken("first") || !taken("second") {
		t.Error("then second is taken and first is not")
	}
	set(errors.New("no such folder"))
	for range 3 { // one may have been in the buffer, and one asked before
		<-looked
	}
	if !taken("second") {
		t.Error("what cannot be read is free")
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("Run returned nil")
	}
}

// Names are taken as long as others announce them, alone or by their hosts; those of the own host are not. To one that announces itself, others give way.
func TestNames(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	changed := make(chan string, 10)
	names := kit.NewNames("mine", nil, func(id string) { changed <- id })
	ended := make(chan error, 1)
	go func() { ended <- names.Run(ctx, bus, "") }()
	if err := names.Synced(ctx); err != nil {
		t.Fatal(err)
	}

	join := func(serve func(context.Context) error) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- serve(ctx) }()
		return func() { cancel(); <-done }
	}
	host := func(name, agent string) func() {
		h, err := agents.NewHost(bus, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Add(t.Context(), &a2a.AgentCard{Name: agent}, agents.Handler(nothing)); err != nil {
			t.Fatal(err)
		}
		return join(h.Serve)
	}
	ours := host("mine", "shared")
	theirs := host("theirs", "hosted")
	next := func(want string) {
		t.Helper()
		if id := <-changed; id != want {
			t.Errorf("%s has changed, want %s", id, want)
		}
	}
	alone := join(func(ctx context.Context) error {
		return agents.Serve(ctx, bus, &a2a.AgentCard{Name: "alone"}, agents.Handler(nothing), &agents.Options{Instance: "one"})
	})
	is := func(id, by string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !takenBy(names.Taken(id, false, ""), by); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("Taken(%s) = %v, want %q", id, names.Taken(id, false, ""), by)
			}
		}
	}
	next("alone")
	is("hosted", "theirs")
	is("alone", "one")
	is("shared", "")
	for id, want := range map[string]string{"hosted": "", "alone": "one", "shared": ""} {
		if err := names.Taken(id, true, ""); !takenBy(err, want) {
			t.Errorf("the agent %s gives way to %v, want %q", id, err, want)
		}
	}
	theirs()
	next("hosted")
	alone()
	next("alone")
	ours()
	is("alone", "")
	is("hosted", "")
	stop()
	if err := <-ended; err == nil {
		t.Error("Run returned nil")
	}
}
