package jetstore

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// listings are the lists that are being made. A list takes time and memory in proportion to all conversations, so one is made at a time, and all who
// wait for it share it. Nobody gets a list that had begun before they asked. The zero value is not ready: see newListings.
type listings struct {
	turn *semaphore.Weighted // of the list that is being made

	mu   sync.Mutex
	next map[string]*listing // by tenant: what has not begun
}

func newListings() *listings {
	return &listings{turn: semaphore.NewWeighted(1), next: map[string]*listing{}}
}

// listing is a list for all who wait for it. They only read it.
type listing struct {
	made chan struct{} // closed when the next two are set
	all  []listed
	err  error

	waiting int                // guarded by listings.mu
	cancel  context.CancelFunc // when nobody waits
}

// errUnmade is for those who wait for a list whose maker panics: no list would say that there are no conversations.
var errUnmade = errors.New("the list was not made")

// get returns the list of a tenant that list makes. It returns ctx's error when that ends before; who makes the list does so once nobody else waits for it.
func (l *listings) get(ctx context.Context, tenant string, list func(ctx context.Context, tenant string) ([]listed, error)) ([]listed, error) {
	l.mu.Lock()
	if is := l.next[tenant]; is != nil {
		is.waiting++
		l.mu.Unlock()
		select {
		case <-is.made:
			return is.all, is.err
		case <-ctx.Done():
			l.leave(tenant, is)
			return nil, ctx.Err()
		}
	}
	// It is nobody's: behind the reads of the one who happens to make it, all would wait.
	making, cancel := context.WithCancel(storage.WithRequester(context.WithoutCancel(ctx), ""))
	defer cancel()
	is := &listing{made: make(chan struct{}), err: errUnmade, waiting: 1, cancel: cancel}
	l.next[tenant] = is
	l.mu.Unlock()
	defer context.AfterFunc(ctx, func() { l.leave(tenant, is) })()
	defer close(is.made)
	if l.turn.Acquire(making, 1) == nil { // else making has ended
		defer l.turn.Release(1)
		l.mu.Lock()
		l.begin(tenant, is)
		l.mu.Unlock()
		is.all, is.err = list(making, tenant)
	}
	if making.Err() != nil {
		is.err = ctx.Err()
	}
	return is.all, is.err
}

// leave says that somebody waits no more.
func (l *listings) leave(tenant string, is *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is.waiting--; is.waiting == 0 {
		l.begin(tenant, is)
		is.cancel()
	}
}

// begin has who asks from now on wait for another list than is. l.mu is held.
func (l *listings) begin(tenant string, is *listing) {
	if l.next[tenant] == is {
		delete(l.next, tenant)
	}
}
