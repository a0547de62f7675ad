package cortex

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// outlineEvery is how long the outlines of conversations that go on are collected before they are put: of one that goes on all the time,
	// one is put in that time.
	outlineEvery = 5 * time.Second
	// outlineAgain is how long it takes at least until missing ones are looked for again.
	outlineAgain = time.Minute
	// outlineCheck is when they are looked for anyway: others may write to the logs, and be killed.
	outlineCheck = time.Hour
	// maxOutlines bounds those that are collected. Of what is left out, the outlines are made from the logs.
	maxOutlines = 4096
	// outlineLoads is how many conversations are loaded for their outlines at most when those are looked for: of the ones used last, of which a list is
	// mostly made. To load all of a large store would read it many times.
	outlineLoads = 200
	// outlineRest is for how long nothing is put behind each, as a multiple of the time that took: the store is there for the turns.
	outlineRest = 9
)

// outlines keeps the outlines of conversations behind everything that anybody waits for. What is not put before the orchestrator ends, the next
// one makes up for.
type outlines struct {
	store  storage.Store
	kept   storage.Outlines // the same; nil: it keeps none
	tenant string
	log    *slog.Logger

	mu     sync.Mutex
	due    map[string]storage.Outline // by the conversation's id
	missed chan struct{}              // has one when not all are in due
}

func newOutlines(cfg *Config) *outlines {
	w := &outlines{store: cfg.Store, tenant: cfg.Tenant, log: cfg.Logger, due: map[string]storage.Outline{}, missed: make(chan struct{}, 1)}
	w.kept, _ = cfg.Store.(storage.Outlines)
	w.miss() // before this one began
	return w
}

// note has the outline of conv put soon, whose last entry is of this time.
func (w *outlines) note(conv *conversation.Conversation, at time.Time) {
	if w.kept == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.due[conv.ContextID]; !ok && len(w.due) >= maxOutlines {
		w.miss()
		return
	}
	w.due[conv.ContextID] = storage.OutlineOf(conv, "", at)
}

// noted reports whether an outline of the conversation will be put anyway.
func (w *outlines) noted(contextID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.due[contextID]
	return ok
}

func (w *outlines) miss() {
	select {
	case w.missed <- struct{}{}:
	default:
	}
}

// forget has nothing put of a conversation that was erased.
func (w *outlines) forget(contextID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, contextID)
}

// serve puts outlines until ctx ends.
func (w *outlines) serve(ctx context.Context) {
	if w.kept == nil {
		return
	}
	var filling sync.WaitGroup
	defer filling.Wait()
	filling.Go(func() {
		for wait := 2 * outlineEvery; pause(ctx, wait); wait = outlineAgain { // those of this process first
			select {
			case <-ctx.Done():
				continue
			case <-w.missed:
			case <-time.After(outlineCheck):
			}
			w.fill(ctx)
		}
	})
	for pause(ctx, outlineEvery) {
		w.mu.Lock()
		due := w.due
		w.due = map[string]storage.Outline{}
		w.mu.Unlock()
		for id, o := range due {
			if !w.put(ctx, id, func() (storage.Outline, error) { return o, nil }) {
				w.miss()
				break
			}
		}
	}
}

// fill puts the outlines that are missing.
func (w *outlines) fill(ctx context.Context) {
	n := 0
	for info, err := range w.store.Contexts(ctx, w.tenant) {
		if err != nil {
			w.log.Debug("outlines not filled in", "err", err)
			return
		}
		n++
		whole := n <= outlineLoads
		if info.Outline.Whole() || info.Outline != nil && !whole || w.noted(info.ContextID) {
			continue
		}
		more := w.put(ctx, info.ContextID, func() (storage.Outline, error) {
			if !whole {
				return storage.Outline{Version: info.Version, Entries: info.Entries, Title: info.Title, Updated: info.Updated}, nil
			}
			conv, err := storage.Load(ctx, w.store, w.tenant, info.ContextID)
			if err == nil && conv.Version != info.Version {
				err = storage.ErrConflict // who writes to it notes it
			}
			if err != nil {
				return storage.Outline{}, err
			}
			return storage.OutlineOf(conv, info.Title, info.Updated), nil
		})
		if !more {
			return
		}
	}
}

// put puts an outline, and rests. It reports false when there is no sense in going on.
func (w *outlines) put(ctx context.Context, contextID string, make func() (storage.Outline, error)) bool {
	began := time.Now()
	o, err := make()
	if err == nil {
		err = w.kept.PutOutline(ctx, w.tenant, contextID, o)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Debug("outline not put", "context_id", contextID, "err", err)
	}
	return pause(ctx, min(outlineRest*time.Since(began), outlineEvery)) && !errors.Is(err, transport.ErrUnavailable)
}

// pause waits, and reports false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	next := time.NewTimer(d)
	defer next.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-next.C:
		return true
	}
}
