//go:build unix

package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// The ways in which a client gives an errand.
const (
	waySend      = "send"
	wayStream    = "stream"
	waySubscribe = "subscribe"
	wayAsk       = "ask"
	wayCancel    = "cancel"
)

var a2aWays = []string{waySend, wayStream, waySubscribe, wayAsk, wayCancel}

// errands are what the clients of a pair do.
type errands struct {
	t        *testing.T
	p        *pair
	answered atomic.Int64

	mu   sync.Mutex
	all  []*errand
	cuts int // of streams and calls
}

// errand is a message, and what came of it.
type errand struct {
	of *errands
	c  *a2aclient.Client

	way, agent, user string
	binding          a2a.TransportProtocol
	text             string
	key, context     string // one of them says that the message is the same when it is sent again
	kills            int64  // of its agents, when it was accepted

	id    a2a.TaskID // of its task; "" until it is accepted
	state a2a.TaskState
	lone  bool // Cortex or the bridge was killed meanwhile, so that the bridge may not know that it was canceled
}

// name says which errand it is.
func (e *errand) name() string {
	return fmt.Sprintf("%s (%s, %s to %s, %s)", e.text, e.user, e.binding, e.agent, e.way)
}

// wrong reports what must not be.
func (e *errand) wrong(format string, args ...any) {
	e.of.t.Errorf("%s: task %s: %s", e.name(), e.id, fmt.Sprintf(format, args...))
}

// killed returns how often the agents of the errand have been killed.
func (e *errand) killed() int64 {
	all := e.of.p.processes
	if e.agent == nearAgent {
		return all[ofAgent].kills.Load()
	}
	return all[ofPeerAgent].kills.Load()
}

// between returns how often Cortex and the bridge have been killed.
func (o *errands) between() int64 {
	return o.p.processes[ofCortex].kills.Load() + o.p.processes[ofBridge].kills.Load()
}

// run gives errands, one after the other, until stop is closed.
func (o *errands) run(ctx context.Context, user string, binding a2a.TransportProtocol, random *rand.Rand, stop <-chan struct{}) {
	clients := map[string]*a2aclient.Client{nearAgent: o.p.join(ofCortex, nearAgent, binding), farAgent: o.p.join(ofCortex, farAgent, binding)}
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-stop:
			return
		default:
		}
		e := &errand{of: o, way: a2aWays[random.IntN(len(a2aWays))], agent: []string{nearAgent, farAgent}[random.IntN(2)], user: user, binding: binding}
		e.c = clients[e.agent]
		verb := map[string]string{wayAsk: "ask", wayCancel: "hold"}[e.way]
		if verb == "" {
			verb = "work"
		}
		e.text = fmt.Sprintf("%s %s-%s-%d", verb, user, strings.ReplaceAll(string(binding), "+", ""), n)
		if n%2 == 0 {
			e.key = e.text
		} else {
			e.context = strings.ReplaceAll(e.text, " ", "-")
		}
		o.mu.Lock()
		o.all = append(o.all, e)
		o.mu.Unlock()
		e.do(ctx)
	}
}

// say returns a message of the errand, which is the same whenever it is sent again.
func (e *errand) say(id, text string, task a2a.TaskID) *a2a.SendMessageRequest {
	m := &a2a.Message{ID: id, Role: a2a.MessageRoleUser, TaskID: task, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	req := &a2a.SendMessageRequest{Message: m, Config: &a2a.SendMessageConfig{}}
	if task == "" {
		m.ContextID, req.Config.PushConfig = e.context, e.of.p.hooks.of(e)
	}
	return req
}

// call makes a call, again and again while Cortex is away. It reports whether the call was successful; if not, err is an answer of Cortex's, or ctx has ended.
func (e *errand) call(ctx context.Context, call func(context.Context) error) (err error) {
	for {
		if err = call(e.of.p.speaks(ctx, e.user, e.key)); err == nil || ctx.Err() != nil || isAnswer(err) {
			return err
		}
		e.of.cut()
		<-time.After(20 * time.Millisecond)
	}
}

func (o *errands) cut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cuts++
}

// isAnswer reports whether an error is one of A2A: Cortex has understood the call, and refuses it.
func isAnswer(err error) bool {
	for _, is := range []error{
		a2a.ErrTaskNotFound, a2a.ErrTaskNotCancelable, a2a.ErrUnsupportedOperation, a2a.ErrInvalidParams, a2a.ErrInvalidRequest, a2a.ErrMethodNotFound, a2a.ErrUnauthenticated,
		a2a.ErrUnauthorized, a2a.ErrVersionNotSupported, a2a.ErrUnsupportedContentType, a2a.ErrInvalidAgentResponse,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// accepted takes note of the task that the errand is.
func (e *errand) accepted(id a2a.TaskID) {
	switch {
	case e.id == "":
		e.id = id
	case id != e.id:
		e.wrong("it is the task %s as well", id)
	}
}

// send sends a message, and returns its task.
func (e *errand) send(ctx context.Context, req *a2a.SendMessageRequest, waits bool) (*a2a.Task, error) {
	req.Config.ReturnImmediately = !waits
	var task *a2a.Task
	err := e.call(ctx, func(ctx context.Context) error {
		got, err := e.c.SendMessage(ctx, req)
		if err != nil {
			return err
		}
		var ok bool
		if task, ok = got.(*a2a.Task); !ok {
			return fmt.Errorf("%w: a %T", a2a.ErrInvalidAgentResponse, got)
		}
		return nil
	})
	if err == nil {
		e.accepted(task.ID)
	}
	return task, err
}

// do carries the errand out, and checks what comes of it.
func (e *errand) do(ctx context.Context) {
	e.kills = e.killed()
	between := e.of.between()
	first := func() *a2a.SendMessageRequest { return e.say("m", e.text, "") }
	var err error
	if e.way == wayStream {
		err = e.follow(ctx, func(ctx context.Context) stream { return e.c.SendStreamingMessage(ctx, first()) })
	}
	if e.id == "" && err == nil { // a stream that was cut before it said anything is a message that is sent again
		_, err = e.send(ctx, first(), e.way == waySend || e.way == wayAsk)
	}
	switch {
	case err != nil:
	case e.way == wayAsk:
		err = e.reply(ctx)
	case e.way == wayCancel:
		err = e.cancel(ctx)
	}
	var task *a2a.Task
	if err == nil {
		task, err = e.end(ctx)
	}
	if err != nil {
		e.wrong("%v", err)
		return
	}
	e.check(task)
	again, err := e.send(ctx, first(), true)
	if err != nil {
		e.wrong("it is sent again: %v", err)
	} else if again.Status.State != task.Status.State {
		e.wrong("it was %s, and is %s when it is sent again", task.Status.State, again.Status.State)
	}
	e.foreign(ctx)
	e.of.mu.Lock()
	e.state, e.lone = task.Status.State, e.of.between() != between
	e.of.mu.Unlock()
	e.of.answered.Add(1)
}

// get returns the task as it is.
func (e *errand) get(ctx context.Context) (task *a2a.Task, err error) {
	err = e.call(ctx, func(ctx context.Context) (err error) {
		task, err = e.c.GetTask(ctx, &a2a.GetTaskRequest{ID: e.id})
		return err
	})
	return task, err
}

// end follows the task to its end.
func (e *errand) end(ctx context.Context) (*a2a.Task, error) {
	for {
		task, err := e.get(ctx)
		if err != nil || task.Status.State.Terminal() {
			return task, err
		}
		if err := e.follow(ctx, func(ctx context.Context) stream {
			return e.c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: e.id})
		}); err != nil && !errors.Is(err, a2a.ErrUnsupportedOperation) { // it has ended meanwhile
			return nil, err
		}
	}
}

// reply answers the question of the task.
func (e *errand) reply(ctx context.Context) error {
	for {
		task, err := e.get(ctx)
		switch {
		case err != nil || task.Status.State.Terminal():
			return err
		case task.Status.State != a2a.TaskStateInputRequired:
			<-time.After(20 * time.Millisecond)
			continue
		}
		if said, want := transportText(task.Status.Message), "Which for "+e.word()+"?"; !strings.Contains(said, want) {
			e.wrong("it asks %q, want %q", said, want)
		}
		_, err = e.send(ctx, e.say("r", "red for "+e.word(), e.id), true)
		return err
	}
}

// cancel cancels the task, as soon as its agent is at work or at once.
func (e *errand) cancel(ctx context.Context) error {
	for {
		err := e.call(ctx, func(ctx context.Context) error {
			_, err := e.c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: e.id})
			return err
		})
		if errors.Is(err, a2a.ErrTaskNotCancelable) { // a call before it has done it
			return nil
		}
		if err != nil {
			return err
		}
		if task, err := e.get(ctx); err != nil || task.Status.State.Terminal() {
			return err
		}
	}
}

// word is what the errand is about.
func (e *errand) word() string {
	_, word, _ := strings.Cut(e.text, " ")
	return word
}

// want returns the answer to the errand.
func (e *errand) want() string {
	if e.way == wayAsk {
		return "finished " + e.word() + " with red for " + e.word()
	}
	said := "finished " + e.word() + labored()
	if e.agent == farAgent { // the bridge makes one text of all that are the peer's
		said = labored() + "\n" + said
	}
	return said
}

var stoppedTimes = regexp.MustCompile(`^the (?:agent|program) stopped (\d+) times while working on this$`)

// check checks the task at its end.
func (e *errand) check(task *a2a.Task) {
	said := transportText(task.Status.Message)
	switch task.Status.State {
	case a2a.TaskStateCompleted:
		if e.way == wayCancel {
			e.wrong("it was not canceled: %q", said)
			return
		}
		texts := map[string]string{}
		for _, a := range task.Artifacts {
			for _, part := range a.Parts {
				texts[a.Name] += part.Text()
			}
		}
		if got := texts["Answer"]; got != e.want() {
			e.wrong("the answer is %q, want %q", got, e.want())
		}
		if got := texts["steps"]; e.way != wayAsk && e.agent == nearAgent && got != labored() {
			e.wrong("its steps are %q, want %q", got, labored())
		}
	case a2a.TaskStateCanceled:
		if e.way != wayCancel {
			e.wrong("it was canceled: %q", said)
		}
	default:
		if m := stoppedTimes.FindStringSubmatch(said); m != nil {
			if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n <= e.killed()-e.kills {
				return // it was
			}
		}
		e.wrong("it is %s: %q; its agents were killed %d times", task.Status.State, said, e.killed()-e.kills)
	}
}

// foreign checks that the task does not exist for somebody else.
func (e *errand) foreign(ctx context.Context) {
	for other := range e.of.p.tokens {
		if other == e.user {
			continue
		}
		one := *e
		one.user = other
		if task, err := one.get(ctx); !errors.Is(err, a2a.ErrTaskNotFound) {
			e.wrong("%s gets it: %+v, %v", other, task, err)
		}
	}
}

// stream is what a client hears.
type stream = func(yield func(a2a.Event, error) bool)

// follow reads a stream, and checks the order of what it says.
func (e *errand) follow(ctx context.Context, open func(context.Context) stream) error {
	texts := map[a2a.ArtifactID]string{}
	for event, err := range open(e.of.p.speaks(ctx, e.user, e.key)) {
		if err != nil {
			if isAnswer(err) {
				return err
			}
			e.of.cut()
			break
		}
		e.accepted(event.TaskInfo().TaskID)
		switch event := event.(type) {
		case *a2a.TaskArtifactUpdateEvent:
			text := ""
			for _, part := range event.Artifact.Parts {
				text += part.Text()
			}
			if event.Append {
				text = texts[event.Artifact.ID] + text
			}
			texts[event.Artifact.ID] = text
			if want := e.want(); event.Artifact.ID == "answer" && !strings.HasPrefix(want, text) {
				e.wrong("a stream says %q, want the beginning of %q", text, want)
			}
		case *a2a.TaskStatusUpdateEvent:
			if event.Status.State == a2a.TaskStateCompleted && texts["answer"] != e.want() {
				e.wrong("a stream has said %q at the end, want %q", texts["answer"], e.want())
			}
		}
	}
	return ctx.Err()
}

func transportText(m *a2a.Message) (text string) {
	if m != nil {
		for _, part := range m.Parts {
			text += part.Text()
		}
	}
	return text
}

// report checks that each errand is one task at Cortex and, if it was passed on, one at the peer, and logs what there was.
func (o *errands) report(ctx context.Context, kills int, seed uint64) {
	t, p := o.t, o.p
	counts := map[string]int{}
	for _, e := range o.all {
		counts["messages"]++
		if e.id != "" {
			counts["accepted"]++
		}
		if e.state == "" {
			counts["lost"]++
			continue
		}
		counts[string(e.state)]++
	}
	for user := range p.tokens {
		for _, agent := range []string{nearAgent, farAgent} {
			has, err := p.tasks(ctx, ofCortex, agent, user)
			if err != nil {
				t.Error(err)
			}
			for _, e := range o.all {
				if e.user == user && e.agent == agent && e.id != "" {
					if n := len(has[e.text]); n != 1 || has[e.text][0].ID != e.id {
						counts["doubled"] += n - 1
						e.wrong("Cortex has %d tasks of it", n)
					}
				}
			}
		}
	}
	passed := o.passed(ctx, counts)
	begun := map[string]map[string]int{nearAgent: p.begun(nearAgent), farAgent: p.begun(farAgent)}
	for _, e := range o.all {
		runs := begun[e.agent][e.text]
		if runs == 0 && e.state == a2a.TaskStateCompleted {
			e.wrong("it is completed, and was never begun")
		}
		if e.agent == farAgent {
			n := len(passed[e.text])
			counts["foreign tasks"] += n
			counts["foreign runs"] += runs
			if n > 1 {
				e.wrong("the peer has %d tasks of it", n)
			}
		} else {
			counts["own runs"] += runs
		}
	}
	if p.hooks != nil {
		late := time.Now().Add(2 * time.Minute)
		for _, e := range o.all {
			if e.state == "" {
				continue
			}
			n, ended := p.hooks.said(e)
			for !ended && time.Now().Before(late) {
				<-time.After(50 * time.Millisecond)
				n, ended = p.hooks.said(e)
			}
			counts["notifications"] += n
			if !ended {
				counts["notifications lost"]++
				e.wrong("no notification of %d says that it is %s", n, e.state)
			}
		}
	} else {
		t.Log("this Cortex pushes nothing, so no notifications are checked")
	}
	var table strings.Builder
	for _, name := range a2aProcesses {
		fmt.Fprintf(&table, "%s %d, ", name, p.processes[name].kills.Load())
	}
	t.Logf("seed %d: %d kills: %s%d calls cut, %v", seed, kills, table.String(), o.cuts, counts)
}

// passed returns the tasks of the peer, by their texts, when they have ended. What was canceled is canceled there, too, unless the bridge cannot know
// that: then it is so at its deadline, and its journal has it until then.
func (o *errands) passed(ctx context.Context, counts map[string]int) map[string][]*a2a.Task {
	lone := map[string]bool{}
	for _, e := range o.all {
		lone[e.text] = e.lone && e.state == a2a.TaskStateCanceled
	}
	var open []string
	var all map[string][]*a2a.Task
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		var err error
		if all, err = o.p.tasks(ctx, ofPeer, farAgent, ""); err != nil {
			continue
		}
		open = nil
		left := 0
		for text, tasks := range all {
			for _, task := range tasks {
				switch {
				case task.Status.State.Terminal():
				case lone[text]:
					left++
				default:
					open = append(open, fmt.Sprint(text, " ", task.ID, " ", task.Status.State))
				}
			}
		}
		kept, err := filepath.Glob(filepath.Join(o.p.dir, "cortex", "a2a", "*", "open", "*"))
		if err != nil || len(kept) < left {
			open = append(open, fmt.Sprintf("%d tasks that the journal does not have (%v)", left-len(kept), err))
		}
		if counts["left until their deadline"] = left; len(open) == 0 {
			break
		}
	}
	if len(open) > 0 {
		o.t.Errorf("the peer goes on with %q", open)
	}
	return all
}
