package erase

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Orphans removes the files of a tenant that were stored before a time and of which nothing speaks: no entry of their conversation's log and
// no dead letter. Whoever stored them was stopped before it could say what they were for. It returns how many.
func Orphans(ctx context.Context, store storage.Store, bus transport.FileKeeper, tenant string, before time.Time) (int, error) {
	files := map[string][]transport.Object{} // by conversation
	for o, err := range bus.Objects(ctx, tenant) {
		if err != nil {
			return 0, err
		}
		files[o.ContextID] = append(files[o.ContextID], o)
	}
	if len(files) == 0 {
		return 0, nil
	}
	named := map[transport.Object]bool{}
	if dead, ok := bus.(transport.DeadLetters); ok {
		for d, err := range dead.DeadLetters(ctx, tenant) {
			if err != nil {
				return 0, err
			}
			name(named, tenant, d.Event)
		}
	}
	removed := 0
	for contextID, objects := range files {
		err := nameAll(named, tenant, store.Load(ctx, tenant, contextID, 0))
		if errors.Is(err, conversation.ErrDamaged) {
			continue // what it speaks of is not known, and may be known again
		}
		if err != nil {
			return removed, err
		}
		for _, o := range objects {
			if named[o] {
				continue
			}
			stored, err := bus.Stored(ctx, o)
			if errors.Is(err, transport.ErrNotFound) || err == nil && !stored.Before(before) {
				continue
			}
			if err == nil {
				err = bus.RemoveObject(ctx, o)
			}
			if err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}

func nameAll(named map[transport.Object]bool, tenant string, log iter.Seq2[*conversation.Entry, error]) error {
	for e, err := range log {
		if err != nil {
			return err
		}
		name(named, tenant, e.Cause)
	}
	return nil
}

// name notes the files of which an event speaks.
func name(named map[transport.Object]bool, tenant string, e *transport.Event) {
	if e == nil {
		return
	}
	note := func(parts a2a.ContentParts) {
		for _, p := range parts {
			if ref, err := transport.RefOf(tenant, p); err == nil {
				named[ref.Object] = true
			}
		}
	}
	message := func(m *a2a.Message) {
		if m != nil {
			note(m.Parts)
		}
	}
	switch p := e.Payload.(type) {
	case *a2a.Message:
		message(p)
	case *a2a.TaskStatusUpdateEvent:
		message(p.Status.Message)
	case *a2a.Task:
		message(p.Status.Message)
		for _, m := range p.History {
			message(m)
		}
		for _, a := range p.Artifacts {
			if a != nil {
				note(a.Parts)
			}
		}
	}
}
