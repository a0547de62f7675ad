package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func nothing(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil }

// Names are taken as long as others announce them, alone or by their hosts; those of the own host are not. To one that announces itself, others give way.
func TestNames(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	changed := make(chan string, 10)
	names := kit.NewNames("mine", func(id string) { changed <- id })
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
		for end := time.Now().Add(time.Minute); names.By(id, false) != by; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("By(%s) = %q, want %q", id, names.By(id, false), by)
			}
		}
	}
	next("alone")
	is("hosted", "theirs")
	is("alone", "one")
	is("shared", "")
	for id, want := range map[string]string{"hosted": "", "alone": "one", "shared": ""} {
		if by := names.By(id, true); by != want {
			t.Errorf("the agent %s gives way to %q, want %q", id, by, want)
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
