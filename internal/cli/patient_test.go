package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestPatient checks that an agent's user is told once that it waits, and once that it continues; and nothing about a lost connection, which is
// reported separately.
func TestPatient(t *testing.T) {
	away := fmt.Errorf("%w: no cortex", transport.ErrUnavailable)
	var told []string
	p := &patient{tell: func(err error) { told = append(told, fmt.Sprint(err)) }}
	for _, err := range []error{nil, away, away, errors.New("something else"), away, nil, nil, away, nil} {
		p.learn(err)
	}
	p.connected(false)
	p.learn(away)
	p.learn(context.Canceled)
	p.connected(true)
	p.learn(nil)
	p.learn(away)
	want := []string{away.Error(), "<nil>", away.Error(), "<nil>", away.Error()}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestPatientIsWhole checks that an agent finds exactly the optional interfaces of its transport.
func TestPatientIsWhole(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	for _, tr := range []transport.Transport{
		bus,
		struct{ transport.Transport }{bus},
		struct {
			transport.Transport
			transport.Files
		}{bus, bus},
		struct {
			transport.Transport
			transport.InboxDepth
		}{bus, bus},
	} {
		whole := (&patient{Transport: tr}).whole()
		_, files := tr.(transport.Files)
		if _, ok := whole.(transport.Files); ok != files {
			t.Errorf("%T: it keeps files: %v, want %v", tr, ok, files)
		}
		_, depth := tr.(transport.InboxDepth)
		if _, ok := whole.(transport.InboxDepth); ok != depth {
			t.Errorf("%T: it tells how much waits: %v, want %v", tr, ok, depth)
		}
	}
}
