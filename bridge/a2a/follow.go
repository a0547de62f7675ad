package a2a

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// errLeft is returned when nobody wants more events.
var errLeft = errors.New("the client is gone")

const (
	wakeEach  = 5 * time.Second       // a task that waits for its client is read so often at least
	wakeLeast = 20 * time.Millisecond // and so often at most
	retryIn   = time.Second           // after the connection to Cortex was lost
)

// follower tells what happens to a task.
type follower struct {
	s     *Server
	c     *caller
	r     *record
	view  view
	said  change               // that was told last
	known int                  // changes in the log that were told, or were before
	yield func(a2a.Event) bool // nil: nobody is told, and no files are read for that
	left  bool

	text struct { // of the answer, as it is written
		of    string // the turn
		try   string
		begun bool
	}
}

// follow sends the message of b, unless it was sent, and yields its task, and then what happens to it until it is over, or, unless on is set, until it
// wants input. It returns the task as it is then; errLeft when yield returned false. With a nil yield it only waits.
func (s *Server) follow(ctx context.Context, c *caller, b *begun, on bool, yield func(a2a.Event) bool) (*record, error) {
	f := &follower{s: s, c: c, r: b.r, view: b.view, yield: yield}
	if b.m != nil {
		if err := f.send(ctx, b); err != nil {
			return nil, err
		}
	} else {
		f.begin(ctx)
	}
	var woken <-chan struct{}
	for {
		switch x := f.r.open(); {
		case f.left:
			return nil, errLeft
		case f.r.state().Terminal():
			return f.r, nil
		case x != nil:
			if err := f.watch(ctx, x); err != nil {
				return nil, err
			}
		case !on:
			return f.r, nil
		default:
			if woken == nil {
				var end func()
				woken, end = c.listen(ctx, f.r.place)
				defer end()
			}
			t := time.NewTimer(wakeEach)
			select {
			case <-woken:
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
			if err := rest.For(ctx, wakeLeast); err != nil {
				return nil, err
			}
		}
		if err := f.reload(ctx); err != nil {
			return nil, err
		}
	}
}

// listen returns a channel that has a value when Cortex has said that something has happened in a conversation, until the function is called. What others
// say there changes no task before Cortex has read it, and everybody may say anything, as often as they like.
func (c *caller) listen(ctx context.Context, contextID string) (<-chan struct{}, func()) {
	ctx, stop := context.WithCancel(ctx)
	woken := make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.Listen(ctx, contextID, func(e *transport.Event) { // the task is read now and then anyway
			if e.From == transport.Cortex {
				signal(woken)
			}
		})
	})
	return woken, func() {
		stop()
		running.Wait()
	}
}

// tell yields e.
func (f *follower) tell(e a2a.Event) {
	f.left = f.left || f.yield != nil && !f.yield(e)
}

// begin yields the task as it is.
func (f *follower) begin(ctx context.Context) {
	f.said, f.known = f.r.now(), len(f.r.changes)-f.r.local
	if f.yield != nil {
		f.tell(f.s.show(ctx, f.c, f.r, f.view))
	}
}

// send sends the message of b, and follows its turn to its answer.
func (f *follower) send(ctx context.Context, b *begun) error {
	own, over, ok := f.s.sender(ctx, f.c, b)
	if !ok {
		return f.s.notSent(ctx, f.c, b, cmp.Or(ctx.Err(), errBusy))
	}
	defer over()
	own.OnSent = func(*transport.Event) {
		over()
		f.s.sent(b)
		f.text.of, f.text.begun = b.x.turn, true // nothing is missed
		f.begin(ctx)
	}
	for e, err := range own.Follow(ctx, b.m) {
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil && f.said.state != "": // it was sent
			return f.again(ctx, err)
		case err != nil:
			return f.s.notSent(ctx, f.c, b, err)
		case f.left:
			return errLeft
		}
		said, ok := e.Payload.(*a2a.Message)
		if !ok {
			f.pass(e, b.x.turn)
			continue
		}
		if r := f.settled(b, said); r != nil {
			f.turnTo(ctx, r)
			return nil
		}
		r, err := f.s.find(ctx, f.c, b.r.id)
		switch {
		case err != nil && !errors.Is(err, a2a.ErrTaskNotFound):
			return err
		case r.exchange(b.x.id) != nil && r.state() != a2a.TaskStateSubmitted:
			f.turnTo(ctx, r)
		case len(b.r.exchanges) > 1:
			return errRefused(said)
		default:
			f.turnTo(ctx, f.s.refused(f.c, b.r.id, b.r.place, b.x.id, said))
		}
		return nil
	}
	return nil
}

// settled returns the task of b as the log has it, without a look there, when the answer says all that the log does: nothing failed, and nothing waits for
// the user. It returns nil when that is not known, and for tasks that the answer alone does not tell: those with several messages, whose state is that of
// all, and those of an agent, which has outputs of its own.
func (f *follower) settled(b *begun, said *a2a.Message) *record {
	failed, _ := said.Metadata[transport.MetaFailed].(bool)
	at, err := time.Parse(time.RFC3339Nano, transport.MetaString(said, transport.MetaSettled))
	if failed || err != nil || f.c.agent != "" || len(b.r.exchanges) != 1 {
		return nil
	}
	x := *b.x
	x.answer, x.answered = said, at
	r := &record{id: b.r.id, place: b.r.place, exchanges: []*exchange{&x}, changes: []change{{state: a2a.TaskStateWorking, at: x.at}, {state: a2a.TaskStateCompleted, at: at}}}
	f.s.pending.drop(r.id)
	return r
}

// watch follows a turn to its answer.
func (f *follower) watch(ctx context.Context, x *exchange) error {
	contextID, user := f.r.place, f.c.user()
	for e, err := range f.c.Watch(ctx, client.Turn{ContextID: contextID, From: user, MessageID: x.id}) {
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return f.again(ctx, err)
		case f.left:
			return errLeft
		}
		if _, ok := e.Payload.(*a2a.Message); ok {
			return nil
		}
		f.pass(e, x.turn)
	}
	return nil
}

// again returns nil when it is time to watch again, after an error.
func (f *follower) again(ctx context.Context, err error) error {
	if !errors.Is(err, transport.ErrUnavailable) {
		return f.s.unsent(err)
	}
	return rest.For(ctx, retryIn)
}

// reload reads the task, and tells what has changed.
func (f *follower) reload(ctx context.Context) error {
	r, err := f.s.find(ctx, f.c, f.r.id)
	if err != nil {
		return err
	}
	f.turnTo(ctx, r)
	return nil
}

// turnTo tells what is new in r.
func (f *follower) turnTo(ctx context.Context, r *record) {
	f.r = r
	all := r.changes[min(f.known, len(r.changes)):]
	f.known = len(r.changes) - r.local
	for i, to := range all {
		last := i == len(all)-1
		if to.state == f.said.state && (to.state == a2a.TaskStateWorking || to.state == a2a.TaskStateSubmitted) {
			continue // it was told with what works, or when it was sent
		}
		if to.state == a2a.TaskStateCompleted && last && f.yield != nil {
			all, _ := f.s.artifacts(ctx, f.c, r, nil) // it says of a file that it cannot be read now
			for _, a := range all {
				f.tell(&a2a.TaskArtifactUpdateEvent{TaskID: r.id, ContextID: r.context(), Artifact: a, LastChunk: true})
			}
		}
		f.said = to
		status := r.status(to)
		if last {
			f.view.put(f.c, r, &status)
		}
		f.tell(&a2a.TaskStatusUpdateEvent{TaskID: r.id, ContextID: r.context(), Status: status})
	}
}

// pass tells a live event of a turn.
func (f *follower) pass(e *transport.Event, turn string) {
	switch p := e.Payload.(type) {
	case *transport.Delta:
		f.write(turn, p.Attempt, p.Text)
	case *a2a.Task:
		text := client.TaskAgent(p)
		if len(p.History) > 0 && p.History[0] != nil {
			text += ": " + transport.Text(p.History[0].Parts)
		}
		f.work(e, text)
	case *a2a.TaskStatusUpdateEvent:
		switch {
		case e.From == transport.Cortex:
			f.work(e, transport.MetaString(p, transport.MetaAgentID)+": "+kit.StateName(p.Status.State))
		case p.Status.Message != nil:
			f.work(e, e.From+": "+transport.Text(p.Status.Message.Parts))
		}
	}
}

// work tells what goes on.
func (f *follower) work(e *transport.Event, text string) {
	s := a2a.TaskStatus{State: a2a.TaskStateWorking, Message: f.r.says(e.ID, text)}
	if !e.Time.IsZero() {
		s.Timestamp = new(e.Time.UTC())
	}
	f.said.state = a2a.TaskStateWorking
	f.tell(&a2a.TaskStatusUpdateEvent{TaskID: f.r.id, ContextID: f.r.context(), Status: s})
}

// write tells a piece of the answer. Who came in the middle gets no pieces, unless the answer is begun again; the whole comes at the end.
func (f *follower) write(turn, try, text string) {
	t := &f.text
	if t.of != turn {
		t.of, t.try, t.begun = turn, try, false
	}
	fresh := try != t.try
	if fresh && (t.begun || t.try != "") {
		t.begun, t.try = true, try
	}
	if !t.begun || text == "" {
		return
	}
	f.tell(&a2a.TaskArtifactUpdateEvent{
		TaskID: f.r.id, ContextID: f.r.context(), Append: !fresh,
		Artifact: &a2a.Artifact{ID: answerArtifact, Name: "Answer", Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	})
}
