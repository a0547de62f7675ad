package cortex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// ownTasks is how many open tasks of one requester are sent to an agent whatever it has to do. Further ones are sent in turn with those of
	// others, so that a stranger waits for a few tasks of each and not for all.
	ownTasks = 4

	// What an agent has not fetched yet is bounded by a window, which opens while it fetches all there is between two looks, and closes
	// while it does not.
	minWindow = 2
	maxWindow = 1024
	lookEvery = 50 * time.Millisecond
	lookWait  = 2 * time.Second

	maxQueued      = 1536     // tasks that wait here, each in a handler of the queue's inbox
	maxQueuedBytes = 48 << 20 // of these
	maxWindows     = 10_000   // agents whose windows are remembered

	// ownShare bounds what one requester may have of these, as a multiple of what is free: three quarters when nobody else has any.
	ownShare = 3
)

// taskQueue holds the tasks of agents that have more to do than they can take, and lets them go in turn among their requesters. They are in
// the inbox [transport.Queue] until their agent's inbox has them, so that a kill loses none, and no conversation waits for them.
// It is safe for concurrent use.
type taskQueue struct {
	backlog transport.InboxBacklog // nil: nothing is queued
	tenant  string
	now     func() time.Time
	wake    chan struct{} // has one when something begins to wait

	mu     sync.Mutex
	agents map[string]*agentQueue
	by     map[string]*queuedBy // by requester
	all    queuedBy
}

// agentQueue is what waits for one agent.
type agentQueue struct {
	window  int
	room    int // in the window, until the next look
	spent   bool
	looked  time.Time
	looking bool
	waiting map[string][]*queuedTask // by requester, in the order of their coming
	order   []string                 // of requesters: the first one is next
}

// queuedBy is what waits of one requester.
type queuedBy struct{ tasks, bytes int }

// queuedTask is a task that waits.
type queuedTask struct {
	agent, requester string
	contextID, id    string // of its event
	bytes            int
	since            time.Time
	withdrawn        bool
	over             chan struct{} // closed when it waits no more
}

func newTaskQueue(cfg *Config) *taskQueue {
	backlog, _ := cfg.Transport.(transport.InboxBacklog)
	return &taskQueue{
		backlog: backlog, tenant: cfg.Tenant, now: cfg.Now, wake: make(chan struct{}, 1), agents: map[string]*agentQueue{}, by: map[string]*queuedBy{},
	}
}

// admits reports whether an agent has room for one more task, and counts that in.
func (q *taskQueue) admits(ctx context.Context, agent string) bool {
	if q.backlog == nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(agent)
	if len(a.order) == 0 && (a.room == 0 || time.Since(a.looked) > lookEvery) {
		q.look(ctx, agent, a)
	}
	if len(a.order) > 0 || a.room == 0 {
		return false
	}
	a.take()
	return true
}

func (q *taskQueue) of(agent string) *agentQueue {
	a := q.agents[agent]
	if a == nil {
		if len(q.agents) >= maxWindows {
			for id, a := range q.agents {
				if len(a.order) == 0 && !a.looking {
					delete(q.agents, id)
				}
			}
		}
		a = &agentQueue{window: 2 * minWindow, waiting: map[string][]*queuedTask{}}
		q.agents[agent] = a
	}
	return a
}

func (a *agentQueue) take() {
	a.room--
	a.spent = a.spent || a.room == 0
}

// look asks how much an agent has not fetched, unless that was asked just now. q.mu is held, but not meanwhile.
func (q *taskQueue) look(ctx context.Context, agent string, a *agentQueue) {
	if a.looking || time.Since(a.looked) < lookEvery {
		return
	}
	a.looking = true
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	n, err := q.backlog.Untaken(ctx, transport.Inbox(q.tenant, agent))
	cancel()
	q.mu.Lock()
	a.looking, a.looked = false, time.Now()
	switch {
	case err != nil: // sending will say what is wrong
		a.room = max(a.room, 1)
		return
	case n == 0 && a.spent:
		a.window = min(2*a.window, maxWindow)
	case n > a.window/2:
		a.window = max(a.window/2, minWindow)
	}
	a.room, a.spent = max(a.window-n, 0), false
}

// full returns why no more tasks of a requester for an agent may wait, or nil.
func (q *taskQueue) full(requester, agent string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := q.by[requester]
	if is == nil || is.tasks < ownShare*(maxQueued-q.all.tasks) && is.bytes < ownShare*(maxQueuedBytes-q.all.bytes) {
		return nil
	}
	return fmt.Errorf("%w: %s has more to do than it can take, and %d tasks of %s wait for agents like that: ask again when some are done",
		transport.ErrFull, prompt.Clean(agent, 64), is.tasks, prompt.Clean(requester, 64))
}

// wait waits until t may be sent, and reports whether it may: not when it was withdrawn, or due is over. It returns the cause of ctx when
// that ends before.
func (q *taskQueue) wait(ctx context.Context, t *queuedTask, due time.Time) (bool, error) {
	t.since, t.over = q.now(), make(chan struct{})
	q.join(t)
	defer q.leave(t)
	late := time.NewTimer(due.Sub(t.since))
	defer late.Stop()
	select {
	case <-t.over:
	case <-late.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return !t.withdrawn, nil
}

func (q *taskQueue) join(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := q.by[t.requester]
	if is == nil {
		is = &queuedBy{}
		q.by[t.requester] = is
	}
	is.add(1, t.bytes)
	q.all.add(1, t.bytes)
	a := q.of(t.agent)
	if len(a.waiting[t.requester]) == 0 {
		a.order = append(a.order, t.requester)
	}
	a.waiting[t.requester] = append(a.waiting[t.requester], t)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// leave ends what join began.
func (q *taskQueue) leave(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(t)
	is := q.by[t.requester]
	if is.add(-1, -t.bytes); is.tasks == 0 {
		delete(q.by, t.requester)
	}
	q.all.add(-1, -t.bytes)
}

func (b *queuedBy) add(tasks, bytes int) { b.tasks, b.bytes = b.tasks+tasks, b.bytes+bytes }

// remove takes t out of the order, if it is in it.
func (q *taskQueue) remove(t *queuedTask) {
	a := q.of(t.agent)
	list := a.waiting[t.requester]
	i := slices.Index(list, t)
	if i < 0 {
		return
	}
	a.waiting[t.requester] = slices.Delete(list, i, i+1)
	if len(list) == 1 {
		delete(a.waiting, t.requester)
		a.order = slices.DeleteFunc(a.order, func(r string) bool { return r == t.requester })
	}
}

// withdraw ends the waiting of the tasks of a conversation, of one by the id of its event, or of all.
func (q *taskQueue) withdraw(contextID, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.agents {
		for _, requester := range slices.Clone(a.order) {
			for _, t := range slices.Clone(a.waiting[requester]) {
				if t.contextID == contextID && (id == "" || t.id == id) {
					t.withdrawn = true
					q.end(t)
				}
			}
		}
	}
}

func (q *taskQueue) end(t *queuedTask) {
	q.remove(t)
	close(t.over)
}

// serve lets tasks go until ctx ends.
func (q *taskQueue) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for q.advance(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
			}
		}
	}
}

// advance lets go what agents have room for now. It reports whether more waits.
func (q *taskQueue) advance(ctx context.Context) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var busy []string
	for id, a := range q.agents {
		if len(a.order) > 0 {
			busy = append(busy, id)
		}
	}
	for _, id := range busy {
		a := q.of(id)
		q.look(ctx, id, a)
		for a.room > 0 && len(a.order) > 0 {
			next := a.order[0]
			q.end(a.waiting[next][0])
			if len(a.waiting[next]) > 0 { // behind the others
				a.order = append(a.order[1:], next)
			}
			a.take()
		}
		more = more || len(a.order) > 0
	}
	return more
}

// trouble tells people of tasks that wait, or returns "".
func (q *taskQueue) trouble() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all.tasks == 0 {
		return ""
	}
	var oldest *queuedTask
	most := ""
	for _, a := range q.agents {
		for _, list := range a.waiting {
			if t := list[0]; oldest == nil || t.since.Before(oldest.since) {
				oldest = t
			}
		}
	}
	for requester, is := range q.by {
		if most == "" || is.tasks > q.by[most].tasks {
			most = requester
		}
	}
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("%d tasks wait for agents that have more to do than they can take, since %s for %s; %d are of %s", q.all.tasks,
		oldest.since.UTC().Format(time.RFC3339), prompt.Clean(oldest.agent, 64), q.by[most].tasks, prompt.Clean(most, 64))
}
