package cortex

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/decide"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// ownTasks is how many open tasks of one requester are sent to an agent without limit. Further ones share the agent's room with those of
	// other requesters, so that a newcomer waits for a few tasks of each and not for all of one.
	ownTasks = 4

	// A window bounds the tasks that an agent has not fetched. It grows if the agent fetches everything between two looks at its inbox while
	// tasks wait, and shrinks if it does not. The result of a look is used for a while, counting the tasks that are sent meanwhile.
	minWindow  = 2
	maxWindow  = 1024
	lookEvery  = 50 * time.Millisecond
	lookSeldom = 8 * lookEvery // for an agent that fetches nothing
	lookHolds  = time.Second
	lookWait   = 2 * time.Second
	maxLooks   = 64 // at a time

	maxWindows = 10_000 // agents whose windows are remembered

	// maxQueued is how many tasks may wait, in all replicas together. Each occupies a handler of the queue's inbox, of which every replica has
	// more: if all were in use, a task would have to wait for tasks of other agents before it leaves that inbox.
	maxQueued     = 1536
	queueHandlers = 2 * maxQueued

	// enqueuedFor is how long a task counts that was put into the queue's inbox and has not arrived here: another replica may have it.
	enqueuedFor = time.Second

	// lateFor is how long an overdue task waits for being withdrawn before the log is read.
	lateFor = 2 * time.Second

	// freeShare bounds the share of one requester and of one agent, as a multiple of what is free: three quarters when nobody else has tasks.
	// Within an agent's share it bounds each requester in the same way.
	freeShare = 3

	// unsure is how many tasks have to be known here before they say something about those that are not.
	unsure = 4
)

// taskQueue holds the tasks of agents that have more to do than they can take, and releases them in rotation among their requesters. A task stays
// in the inbox [transport.Queue] until its agent's inbox has it, so that a kill loses none, and no conversation waits for it.
// It is safe for concurrent use.
type taskQueue struct {
	backlog transport.InboxBacklog // nil: nothing is queued
	depth   transport.InboxDepth   // nil: the tasks at other replicas are unknown
	tenant  string
	maker   *decide.Maker // counts the tasks under way
	now     func() time.Time
	wake    chan struct{} // receives when a task begins to wait
	looks   chan struct{} // holds one element for each look in progress

	mu       sync.Mutex
	agents   map[string]*agentQueue
	by       map[string]int // tasks by requester, of all agents
	all      int            // tasks that wait here or are enqueued
	enqueued map[string]*queuedTask
	late     map[string]*queuedTask // overdue tasks, which are not released any more and wait until the log has their end

	inbox    int // tasks in the queue's inbox at the last count, and those put there since
	counted  time.Time
	counting bool
}

// agentQueue is what waits for one agent.
type agentQueue struct {
	window    int
	untaken   int  // tasks not fetched at the last look, and those released since
	sent      int  // tasks marked as sent at the last look
	hadToWait bool // a task had to wait for room since the last look
	looked    time.Time
	looking   bool
	releasing bool // a goroutine releases its tasks

	tasks   int // tasks that wait or are enqueued
	by      map[string]int
	waiting map[string][]*queuedTask // by requester, in the order of arrival
	order   []string                 // requesters, the next one first
}

// queuedTask is a task that waits, or may have to.
type queuedTask struct {
	agent, requester string
	contextID        string
	task             a2a.TaskID
	id               string // of the event that sends it
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
		agents: map[string]*agentQueue{}, by: map[string]int{}, enqueued: map[string]*queuedTask{}, late: map[string]*queuedTask{},
	}
}

// admits reports whether t may be sent to its agent now, and counts it as sent if so.
func (q *taskQueue) admits(ctx context.Context, t queuedTask) bool {
	if q.maker.Tasks(t.agent, t.requester) <= ownTasks {
		q.maker.MarkSent(t.agent, t.task)
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(t.agent)
	if len(a.order) == 0 {
		a.hadToWait = a.hadToWait || q.room(t.agent, a) <= 0
		if a.hadToWait || time.Since(a.looked) > lookHolds {
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
				if a.tasks == 0 && !a.looking && !a.releasing {
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

// look counts the tasks that an agent has not fetched, at most every lookEvery. q.mu is held, but released during the request.
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
	case err != nil: // sending a task will report the error
		if q.room(agent, a) <= 0 {
			a.untaken, a.sent = a.window-1, sent
		}
		return
	case n == 0 && a.hadToWait:
		a.window = min(2*a.window, maxWindow)
	case n > a.window/2:
		a.window = max(a.window/2, minWindow)
	}
	a.untaken, a.sent, a.hadToWait = n, sent, false
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

// reserve counts t as waiting, or returns why it may not wait. It is called before t is put into the queue's inbox.
func (q *taskQueue) reserve(ctx context.Context, t *queuedTask) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(ctx)
	a := q.of(t.agent)
	most := freeShare * (maxQueued - max(q.inbox, q.all))
	ofAgent := q.estimate(a.tasks)
	agent, requester := prompt.Clean(t.agent, 64), prompt.Clean(t.requester, 64)
	switch {
	case ofAgent >= most:
		return fmt.Errorf("%w: %s has more to do than it can take, %d tasks wait for it, and %d for all agents: ask again when some are done",
			transport.ErrFull, agent, a.tasks, q.all)
	case q.estimate(q.by[t.requester]) >= most, q.estimate(a.by[t.requester]) >= freeShare*(most-ofAgent):
		return fmt.Errorf("%w: %s has more to do than it can take, and %d tasks of %s wait for agents like that: ask again when some are done",
			transport.ErrFull, agent, q.by[t.requester], requester)
	}
	q.enqueue(t)
	return nil
}

// estimate returns how many of the tasks in the queue's inbox are of a kind of which so many are known here. Those that another replica has, or that have
// not arrived since the start, are taken to be like the known ones.
func (q *taskQueue) estimate(known int) int {
	return known + max(0, q.inbox-q.all)*known/(q.all+unsure)
}

// enqueue counts t as waiting.
func (q *taskQueue) enqueue(t *queuedTask) {
	t.since = time.Now()
	q.enqueued[t.id] = t
	q.add(t, 1)
	q.inbox++
}

// exchange releases the next task of t's agent, although the agent has no room for it, and counts t as waiting in its place. It returns false when none
// waits here.
func (q *taskQueue) exchange(t *queuedTask) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(t.agent)
	if len(a.order) == 0 {
		return false
	}
	q.release(a)
	q.enqueue(t)
	return true
}

// unreserve reverts reserve for a task that was not put into the queue's inbox.
func (q *taskQueue) unreserve(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrived(t.id)
}

// arrived removes a task from those that are enqueued.
func (q *taskQueue) arrived(id string) {
	if t := q.enqueued[id]; t != nil {
		delete(q.enqueued, id)
		q.add(t, -1)
	}
}

// add adds n tasks like t to the counts; n is 1 or -1.
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

// count counts the tasks of all replicas, at most every lookEvery. q.mu is held, but released during the request.
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
	if q.inbox = n; err != nil { // putting a task there will report the error
		q.inbox = q.all
	}
	for id, t := range q.enqueued {
		if time.Since(t.since) > enqueuedFor {
			q.arrived(id)
		}
	}
}

// waitEnd is how the waiting of a task ends.
type waitEnd int

const (
	released waitEnd = iota // it may be sent
	withdrawn
	late // it is overdue, and is not released any more
)

// wait waits until t may be sent, until last at most. After last it waits for a while longer for t being withdrawn by whoever stops it. It
// returns the cause of ctx when ctx ends first.
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
			return released, nil
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

// expire stops the release of t, and reports whether t had not been released yet.
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
	q.arrived(t.id)
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

// leave reverts join.
func (q *taskQueue) leave(t *queuedTask) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remove(t)
	if q.late[t.id] == t {
		delete(q.late, t.id)
	}
	q.add(t, -1)
}

// remove removes t from the waiting tasks, and reports whether it was among them.
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

// withdraw ends the waiting of a conversation's tasks: of the one whose event has the id, or of all if id is "".
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

// serve releases tasks until ctx ends, with a goroutine for each agent that has some.
func (q *taskQueue) serve(ctx context.Context) {
	var releasing sync.WaitGroup
	defer releasing.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for _, agent := range q.startReleasing() {
			releasing.Go(func() { q.releaseLoop(ctx, agent) })
		}
	}
}

// startReleasing returns the agents with waiting tasks but without a goroutine, and marks them as releasing.
func (q *taskQueue) startReleasing() (agents []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, a := range q.agents {
		if len(a.order) > 0 && !a.releasing {
			a.releasing = true
			agents = append(agents, id)
		}
	}
	return agents
}

// releaseLoop releases the tasks of an agent until none waits.
func (q *taskQueue) releaseLoop(ctx context.Context, agent string) {
	for pause := lookEvery; ; pause = min(2*pause, lookSeldom) {
		gone, more := q.advance(ctx, agent)
		if !more {
			return
		}
		if gone > 0 {
			pause = lookEvery
		}
		if rest.For(ctx, pause) != nil {
			return
		}
	}
}

// advance releases the tasks that an agent has room for now. It returns their number, and whether more wait.
func (q *taskQueue) advance(ctx context.Context, agent string) (gone int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.of(agent)
	q.look(ctx, agent, a)
	for ; len(a.order) > 0 && q.room(agent, a) > 0; gone++ {
		q.release(a)
	}
	more = len(a.order) > 0
	a.hadToWait, a.releasing = a.hadToWait || more, more
	return gone, more
}

// release releases the task of the requester whose turn it is.
func (q *taskQueue) release(a *agentQueue) {
	next := a.order[0]
	q.end(a.waiting[next][0])
	if len(a.waiting[next]) > 0 { // behind the others
		a.order = append(a.order[1:], next)
	}
	a.untaken++
}

// trouble describes the waiting tasks for people, or returns "".
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
