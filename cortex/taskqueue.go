package cortex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// ownTasks is how many open tasks of one requester are sent to an agent whatever it has to do. Further ones are sent in turn with those of
	// others, so that a stranger waits for a few tasks of each and not for all.
	ownTasks = 4

	// What an agent has not fetched yet is bounded by a window, which opens while it fetches all there is between two looks, and closes
	// while it does not. How much an agent has in hand is told by a look for a while: as it does some of that, it fetches others.
	minWindow  = 2
	maxWindow  = 1024
	lookEvery  = 50 * time.Millisecond
	lookSeldom = 8 * lookEvery // at an agent that fetches nothing
	lookHolds  = time.Second
	lookWait   = 2 * time.Second
	maxLooks   = 64 // at a time

	maxWindows = 10_000 // agents whose windows are remembered

	// Tasks that wait, of all replicas. Each is held by a handler of the queue's inbox, of which every replica has more: with all of them in
	// use, tasks would come out of that inbox behind those of other agents.
	maxQueued     = 1536
	queueHandlers = 2 * maxQueued

	// comingFor is how long a task is counted that was put into the queue's inbox and has not come out of it here: it may be at another replica.
	comingFor = time.Second

	// lateFor is how long a task whose time is over waits for being withdrawn, before the log is asked.
	lateFor = 2 * time.Second

	// ownShare bounds what one requester, and one agent, may have of these, as a multiple of what is free: three quarters when nobody else has
	// any. Of what is free to an agent one requester has as much.
	ownShare = 3
)

// taskQueue holds the tasks of agents that have more to do than they can take, and lets them go in turn among their requesters. They are in
// the inbox [transport.Queue] until their agent's inbox has them, so that a kill loses none, and no conversation waits for them.
// It is safe for concurrent use.
type taskQueue struct {
	backlog transport.InboxBacklog // nil: nothing is queued
	depth   transport.InboxDepth   // nil: what waits at other replicas is not known
	tenant  string
	maker   *decide.Maker // knows how many tasks are under way
	now     func() time.Time
	wake    chan struct{} // has one when something begins to wait
	looks   chan struct{} // has one for each look at an inbox

	mu     sync.Mutex
	agents map[string]*agentQueue
	by     map[string]int // of all, by requester
	all    int            // tasks that wait here, or come
	coming map[string]*queuedTask
	late   map[string]*queuedTask // whose time is over: they are let go no more, and wait for the log to have that

	inbox    int // tasks in the queue's inbox, when that was counted, and those that were put there since
	counted  time.Time
	counting bool
}

// agentQueue is what waits for one agent.
type agentQueue struct {
	window  int
	untaken int  // tasks that it has not fetched, when that was looked at, and those that were let go since
	sent    int  // tasks under way that were marked as sent, at that time
	spent   bool // somebody had to wait for room since
	looked  time.Time
	looking bool
	tended  bool // by a goroutine that lets its tasks go

	tasks   int // that wait or come
	by      map[string]int
	waiting map[string][]*queuedTask // by requester, in the order of their coming
	order   []string                 // of requesters: the first one is next
}

// queuedTask is a task that waits, or may have to.
type queuedTask struct {
	agent, requester string
	contextID        string
	task             a2a.TaskID
	id               string // of its event
	due              time.Time
	since            time.Time
	withdrawn        bool
	over             chan struct{} // closed when it waits no more
}

func newTaskQueue(cfg *Config, maker *decide.Maker) *taskQueue {
	backlog, _ := cfg.Transport.(transport.InboxBacklog)
	depth, _ := cfg.Transport.(transport.InboxDepth)
	return &taskQueue{
		backlog: backlog, depth: depth, tenant: cfg.Tenant, maker: maker, now: cfg.Now, wake: make(chan struct{}, 1), looks: make(chan struct{}, maxLooks),
		agents: map[string]*agentQueue{}, by: map[string]int{}, coming: map[string]*queuedTask{}, late: map[string]*queuedTask{},
	}
}

// admits reports whether t may be sent to its agent now, and counts it as sent.
func (q *taskQueue) admits(ctx context.Context, t queuedTask) bool {
	if q.maker.Tasks(t.agent, t.requester) <= ownTasks {
		q.maker.MarkSent(t.agent, t.task)
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(t.agent)
	if len(a.order) == 0 {
		a.spent = a.spent || q.room(t.agent, a) <= 0
		if a.spent || time.Since(a.looked) > lookHolds {
			q.look(ctx, t.agent, a)
		}
	}
	if len(a.order) > 0 || q.room(t.agent, a) <= 0 {
		return false
	}
	q.maker.MarkSent(t.agent, t.task)
	return true
}

func (q *taskQueue) of(agent string) *agentQueue {
	a := q.agents[agent]
	if a == nil {
		if len(q.agents) >= maxWindows {
			for id, a := range q.agents {
				if a.tasks == 0 && !a.looking && !a.tended {
					delete(q.agents, id)
				}
			}
		}
		a = &agentQueue{window: 2 * minWindow, by: map[string]int{}, waiting: map[string][]*queuedTask{}}
		q.agents[agent] = a
	}
	return a
}

// room returns how many more tasks an agent may be sent.
func (q *taskQueue) room(agent string, a *agentQueue) int {
	return a.window - a.untaken - (q.maker.Sent(agent) - a.sent)
}

// look asks how much an agent has not fetched, unless that was asked just now. q.mu is held, but not meanwhile.
func (q *taskQueue) look(ctx context.Context, agent string, a *agentQueue) {
	if a.looking || time.Since(a.looked) < lookEvery {
		return
	}
	a.looking = true
	sent := q.maker.Sent(agent)
	q.mu.Unlock()
	n, err := q.untaken(ctx, agent)
	q.mu.Lock()
	a.looking, a.looked = false, time.Now()
	switch {
	case err != nil: // sending will say what is wrong
		if q.room(agent, a) <= 0 {
			a.untaken, a.sent = a.window-1, sent
		}
		return
	case n == 0 && a.spent:
		a.window = min(2*a.window, maxWindow)
	case n > a.window/2:
		a.window = max(a.window/2, minWindow)
	}
	a.untaken, a.sent, a.spent = n, sent, false
}

func (q *taskQueue) untaken(ctx context.Context, agent string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	select {
	case q.looks <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-q.looks }()
	return q.backlog.Untaken(ctx, transport.Inbox(q.tenant, agent))
}

// book counts t as one that waits, or returns why it may not. It comes before t is put into the queue's inbox.
func (q *taskQueue) book(ctx context.Context, t *queuedTask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(ctx)
	a := q.of(t.agent)
	most := ownShare * (maxQueued - max(q.inbox, q.all))
	agent, requester := prompt.Clean(t.agent, 64), prompt.Clean(t.requester, 64)
	switch {
	case a.tasks >= most:
		return fmt.Errorf("%w: %s has more to do than it can take, %d tasks wait for it, and %d for all agents: ask again when some are done",
			transport.ErrFull, agent, a.tasks, q.all)
	case q.by[t.requester] >= most, a.by[t.requester] >= ownShare*(most-a.tasks):
		return fmt.Errorf("%w: %s has more to do than it can take, and %d tasks of %s wait for agents like that: ask again when some are done",
			transport.ErrFull, agent, q.by[t.requester], requester)
	}
	t.since = time.Now()
	q.coming[t.id] = t
	q.add(t, 1)
	q.inbox++
	return nil
}

// unbook ends what book began, when t was not put there after all.
func (q *taskQueue) unbook(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.came(t.id)
}

// came ends the coming of a task.
func (q *taskQueue) came(id string) {
	if t := q.coming[id]; t != nil {
		delete(q.coming, id)
		q.add(t, -1)
	}
}

// add counts a task in, or out with -1.
func (q *taskQueue) add(t *queuedTask, n int) {
	a := q.of(t.agent)
	q.all += n
	a.tasks += n
	for _, by := range []map[string]int{q.by, a.by} {
		if by[t.requester] += n; by[t.requester] == 0 {
			delete(by, t.requester)
		}
	}
}

// count asks how many tasks all replicas have, unless that was asked just now. q.mu is held, but not meanwhile.
func (q *taskQueue) count(ctx context.Context) {
	if q.depth == nil {
		q.inbox = q.all
		return
	}
	if q.counting || time.Since(q.counted) < lookEvery {
		return
	}
	q.counting = true
	q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	n, err := q.depth.Waiting(ctx, transport.Inbox(q.tenant, transport.Queue))
	cancel()
	q.mu.Lock()
	q.counting, q.counted = false, time.Now()
	if q.inbox = n; err != nil { // putting it there will say what is wrong
		q.inbox = q.all
	}
	for id, t := range q.coming {
		if time.Since(t.since) > comingFor {
			q.came(id)
		}
	}
}

// waitEnd is how the waiting of a task ends.
type waitEnd int

const (
	mayGo waitEnd = iota // it may be sent
	withdrawn
	late // nobody lets it go any more
)

// wait waits until t may be sent, and at most until last: then, for a while, until it is withdrawn, which who stops it does. It returns the cause
// of ctx when that ends before.
func (q *taskQueue) wait(ctx context.Context, t *queuedTask, last time.Time) (waitEnd, error) {
	t.since, t.over = q.now(), make(chan struct{})
	q.join(t)
	defer q.leave(t)
	timer := time.NewTimer(last.Sub(t.since))
	defer timer.Stop()
	expired := false
	for {
		select {
		case <-t.over:
			q.mu.Lock()
			defer q.mu.Unlock()
			if t.withdrawn {
				return withdrawn, nil
			}
			return mayGo, nil
		case <-timer.C:
			if expired {
				return late, nil
			}
			expired = q.expire(t)
			timer.Reset(max(0, t.due.Sub(q.now())) + lateFor)
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// expire has nobody let t go any more, and reports whether nobody has.
func (q *taskQueue) expire(t *queuedTask) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.remove(t) {
		return false
	}
	q.late[t.id] = t
	return true
}

func (q *taskQueue) join(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.came(t.id)
	q.add(t, 1)
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
	if q.late[t.id] == t {
		delete(q.late, t.id)
	}
	q.add(t, -1)
}

// remove takes t out of the order, and reports whether it was in it.
func (q *taskQueue) remove(t *queuedTask) bool {
	a := q.of(t.agent)
	list := a.waiting[t.requester]
	i := slices.Index(list, t)
	if i < 0 {
		return false
	}
	a.waiting[t.requester] = slices.Delete(list, i, i+1)
	if len(list) == 1 {
		delete(a.waiting, t.requester)
		a.order = slices.DeleteFunc(a.order, func(r string) bool { return r == t.requester })
	}
	return true
}

// withdraw ends the waiting of the tasks of a conversation, of one by the id of its event, or of all.
func (q *taskQueue) withdraw(contextID, id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := func(t *queuedTask) {
		if t.contextID == contextID && (id == "" || t.id == id) {
			t.withdrawn = true
			q.end(t)
		}
	}
	for _, a := range q.agents {
		for _, requester := range slices.Clone(a.order) {
			for _, t := range slices.Clone(a.waiting[requester]) {
				end(t)
			}
		}
	}
	for _, t := range q.late {
		end(t)
	}
}

func (q *taskQueue) end(t *queuedTask) {
	q.remove(t)
	delete(q.late, t.id)
	close(t.over)
}

// serve lets tasks go until ctx ends, those of each agent by themselves.
func (q *taskQueue) serve(ctx context.Context) {
	var tending sync.WaitGroup
	defer tending.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for _, agent := range q.untended() {
			tending.Go(func() { q.tend(ctx, agent) })
		}
	}
}

// untended returns the agents for which tasks wait that nobody lets go, who are tended from now on.
func (q *taskQueue) untended() (agents []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, a := range q.agents {
		if len(a.order) > 0 && !a.tended {
			a.tended = true
			agents = append(agents, id)
		}
	}
	return agents
}

// tend lets the tasks of an agent go while there are some.
func (q *taskQueue) tend(ctx context.Context, agent string) {
	for pause := lookEvery; ; pause = min(2*pause, lookSeldom) {
		gone, more := q.advance(ctx, agent)
		if !more {
			return
		}
		if gone > 0 {
			pause = lookEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// advance lets go what an agent has room for now. It returns how many those are, and whether more wait.
func (q *taskQueue) advance(ctx context.Context, agent string) (gone int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(agent)
	q.look(ctx, agent, a)
	for ; len(a.order) > 0 && q.room(agent, a) > 0; gone++ {
		next := a.order[0]
		q.end(a.waiting[next][0])
		if len(a.waiting[next]) > 0 { // behind the others
			a.order = append(a.order[1:], next)
		}
		a.untaken++
	}
	more = len(a.order) > 0
	a.spent, a.tended = a.spent || more, more
	return gone, more
}

// trouble tells people of tasks that wait, or returns "".
func (q *taskQueue) trouble() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest *queuedTask
	all, most, by := 0, "", map[string]int{}
	for _, a := range q.agents {
		for requester, list := range a.waiting {
			all += len(list)
			if by[requester] += len(list); by[requester] > by[most] {
				most = requester
			}
			if t := list[0]; oldest == nil || t.since.Before(oldest.since) {
				oldest = t
			}
		}
	}
	if oldest == nil {
		return ""
	}
	return fmt.Sprintf("%d tasks wait for agents that have more to do than they can take, since %s for %s; %d are of %s", all,
		oldest.since.UTC().Format(time.RFC3339), prompt.Clean(oldest.agent, 64), by[most], prompt.Clean(most, 64))
}
