package cortex

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/cache"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// outlineEvery is how long outlines are collected before they are put, so that a busy conversation costs one outline in that time.
	outlineEvery = 5 * time.Second
	// outlineAgain is the minimum time between two searches for missing outlines.
	outlineAgain = time.Minute
	// outlineCheck is the maximum time between two searches: other processes may append to the logs and be killed.
	outlineCheck = time.Hour
	// maxOutlines bounds the collected outlines. Further ones are made from the logs later.
	maxOutlines = 4096
	// outlineLoads is how many conversations a search loads at most to make their outlines: the latest ones, which lists mostly show.
	// Loading all would read a large store many times.
	outlineLoads = 200
	// outlinePatience is how long outlines may fail before it is a warning: one may be of a conversation that others work in, or is damaged.
	outlinePatience = 10 * time.Minute
	// outlineRest is the pause after each put, as a multiple of its duration: turns have priority at the store.
	outlineRest = 9
)

// outlines keeps the outlines of conversations up to date, in the background of the turns. The next orchestrator makes the outlines that were not
// put before this one ended.
type outlines struct {
	store        storage.Store
	outlineStore storage.Outlines // the same store; nil: it keeps no outlines
	tenant       string
	log          *slog.Logger

	failing rest.Failing

	mu        sync.Mutex
	due       map[string]storage.Outline // by context id
	searchDue chan struct{}              // receives when an outline was not collected
}

func newOutlines(cfg *Config) *outlines {
	w := &outlines{store: cfg.Store, tenant: cfg.Tenant, log: cfg.Logger, due: map[string]storage.Outline{}, searchDue: make(chan struct{}, 1)}
	w.outlineStore, _ = cfg.Store.(storage.Outlines)
	w.requestSearch() // those missed before this process started
	return w
}

// note collects the outline of conv, of which last is the last entry. The title of a conversation that has just begun need not be read from its log.
func (w *outlines) note(conv *cache.Fold, last *conversation.Entry) {
	if w.outlineStore == nil {
		return
	}
	if last.Seq == 1 {
		conv.Title, _ = last.Title()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.due[conv.ContextID]; !ok && len(w.due) >= maxOutlines {
		w.requestSearch()
		return
	}
	w.due[conv.ContextID] = storage.OutlineOf(conv.Conversation, conv.Title, last.Time)
}

// noted reports whether an outline of the conversation is collected.
func (w *outlines) noted(contextID string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.due[contextID]
	return ok
}

func (w *outlines) requestSearch() {
	select {
	case w.searchDue <- struct{}{}:
	default:
	}
}

// forget drops the collected outline of an erased conversation.
func (w *outlines) forget(contextID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.due, contextID)
}

// serve puts outlines until ctx ends.
func (w *outlines) serve(ctx context.Context) {
	if w.outlineStore == nil {
		return
	}
	var filling sync.WaitGroup
	defer filling.Wait()
	filling.Go(func() {
		for wait := 2 * outlineEvery; rest.For(ctx, wait) == nil; wait = outlineAgain { // after the collected ones
			select {
			case <-ctx.Done():
				continue
			case <-w.searchDue:
			case <-time.After(outlineCheck):
			}
			w.fill(ctx)
		}
	})
	for rest.For(ctx, outlineEvery) == nil {
		w.mu.Lock()
		due := w.due
		w.due = map[string]storage.Outline{}
		w.mu.Unlock()
		for id, o := range due {
			if !w.put(ctx, id, func() (storage.Outline, error) { return o, nil }) {
				w.requestSearch()
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
			w.tell(ctx, err)
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
				err = storage.ErrConflict // the process that appends to it notes its outline
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

// put puts an outline, and pauses. It returns false when ctx has ended or the store is unavailable.
func (w *outlines) put(ctx context.Context, contextID string, make func() (storage.Outline, error)) bool {
	began := time.Now()
	o, err := make()
	if err == nil {
		err = w.outlineStore.PutOutline(ctx, w.tenant, contextID, o)
		w.tell(ctx, err)
	} else if errors.Is(err, transport.ErrUnavailable) { // else it is about one conversation
		w.tell(ctx, err)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Debug("outline not put", "context_id", contextID, "err", err)
	}
	return rest.For(ctx, min(outlineRest*time.Since(began), outlineEvery)) == nil && !errors.Is(err, transport.ErrUnavailable)
}

// tell warns of an error when nothing has worked for outlinePatience.
func (w *outlines) tell(ctx context.Context, err error) {
	if w.failing.Tell(err, outlinePatience) && ctx.Err() == nil {
		w.log.Warn("outlines of conversations cannot be kept, and lists read their logs, which takes longer", "err", err)
	}
}
