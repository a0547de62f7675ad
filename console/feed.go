package console

import (
	"context"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Bounds of a feed.
const (
	maxFeed   = 2048                   // happenings that it remembers
	feedTime  = 250 * time.Millisecond // the journal is read so often, while somebody watches
	feedRetry = 3 * time.Second        // and after an error
)

// feed follows the journal of the store for all who watch what happens: one goroutine reads it, and only while somebody watches. It is safe for
// concurrent use.
type feed struct {
	journal storage.Journal
	tenant  string

	mu       sync.Mutex
	watchers int
	stop     context.CancelFunc
	ended    chan struct{}
	// rows are all happenings after version from up to version to.
	rows     []happening
	from, to conversation.Version
	changed  chan struct{} // closed when rows change
}

// enter begins to watch; leave ends it. The journal is read from after on, unless it is read already.
func (f *feed) enter(after conversation.Version) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers++; f.watchers == 1 {
		f.rows, f.from, f.to, f.changed = nil, after, after, make(chan struct{})
		ctx, stop := context.WithCancel(context.Background())
		before, ended := f.ended, make(chan struct{})
		f.stop, f.ended = stop, ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			f.run(ctx)
		}()
	}
	return func() {
		f.mu.Lock()
		var ended chan struct{}
		if f.watchers--; f.watchers == 0 {
			f.stop()
			ended = f.ended
		}
		f.mu.Unlock()
		if ended != nil {
			<-ended
		}
	}
}

// run reads the journal until ctx ends.
func (f *feed) run(ctx context.Context) {
	f.mu.Lock()
	at := f.to
	f.mu.Unlock()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		rows, to, err := f.read(ctx, at)
		switch {
		case err != nil:
			next.Reset(feedRetry)
		case to == at:
			next.Reset(feedTime)
		default:
			f.add(rows, at, to)
			at = to
			next.Reset(0)
		}
	}
}

// add remembers what is new, and tells who waits.
func (f *feed) add(rows []happening, after, to conversation.Version) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.to != after {
		return // another run has begun elsewhere
	}
	f.to = to
	f.rows = append(f.rows, rows...)
	for len(f.rows) > maxFeed {
		first := f.rows[0].Version
		for len(f.rows) > 0 && f.rows[0].Version == first { // all of an entry
			f.rows = f.rows[1:]
		}
		f.from = first
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// after returns what has happened after a version, and up to which it is known now; changed is closed when there is more. What is no longer remembered
// is read from the store, when enter allows it.
func (f *feed) after(ctx context.Context, v conversation.Version, enter func(context.Context) (leave func(), err error)) (rows []happening, to conversation.Version, changed <-chan struct{}, err error) {
	f.mu.Lock()
	to, changed = f.to, f.changed
	known := v >= f.from
	if known {
		for i := range f.rows {
			if f.rows[i].Version > v {
				rows = append(rows, f.rows[i])
			}
		}
	}
	f.mu.Unlock()
	if known {
		return rows, max(to, v), changed, nil
	}
	leave, err := enter(ctx)
	if err != nil {
		return nil, v, changed, err
	}
	defer leave()
	rows, to, err = f.read(ctx, v)
	return rows, to, changed, err
}

// read reads what comes after a version, a bounded number of entries, and returns the version of the last one.
func (f *feed) read(ctx context.Context, after conversation.Version) (rows []happening, to conversation.Version, err error) {
	records, err := f.journal.Records(ctx, after)
	if err != nil {
		return nil, after, err
	}
	to = after
	for i := range records {
		r := &records[i]
		to = max(to, r.Version)
		switch {
		case len(r.Erased) > 0:
			rows = append(rows, happening{Version: r.Version, Erased: r.Erased})
		case r.Entry != nil && r.Tenant == f.tenant:
			rows = append(rows, happeningsOf(r.ContextID, r.Entry)...)
		}
	}
	return rows, to, nil
}
