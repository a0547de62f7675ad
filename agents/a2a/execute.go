package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	awayPatience = 30 * time.Second // how long a task waits for a peer that did not get it
	maxSends     = 4                // of one message
	maxSilence   = 2 * time.Minute  // of a stream, after which the peer is asked
	callTimeout  = time.Minute      // of a call that every server answers at once
	cancelTime   = 10 * time.Second
	loginTime    = 30 * time.Second // how long a peer may take to see that the user has logged in
	maxEvents    = 200_000          // of a task

	// What a peer streams faster is read at this pace: words of a model come at a quarter of it, and reading all that a peer can send would take the
	// processors from everybody else.
	eventsPerSecond, eventsAtOnce = 250, 2000

	firstPoll = 200 * time.Millisecond
	maxPoll   = 30 * time.Second
)

var _ agents.Executor = (*Agent)(nil)

// Execute implements [agents.Executor].
func (a *Agent) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return agents.Handler(a.do).Execute(ctx, t)
}

// do gives a task to the peer, goes on with one that was given before, or passes on the reply to a question.
func (a *Agent) do(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	r, err := a.journal.Read(t)
	if err != nil {
		return nil, err
	}
	w := &work{a: a, t: t, r: r, out: outputs{host: a.host()}, pace: newPace()}
	defer w.leave(a.enter(t))
	defer w.out.drop()
	res, err := w.do(ctx)
	w.out.drop() // before the peer is told anything, which may take long
	switch cause := context.Cause(ctx); {
	case errors.Is(err, errTooMuch):
		w.abandon(ctx)
	case (err == nil || cause == nil) && w.isOver(err):
		a.journal.closed(t)
	case err == nil || cause == nil: // the next attempt, or the reply, goes on with the peer's task, or it is canceled when nobody waits for it any more
	case !errors.Is(cause, agents.ErrStopping):
		w.abandon(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if away, _ := isAway(err); away {
			a.suspect()
		}
		return nil, w.explain(err)
	}
	return res, nil
}

// isOver reports whether the peer has nothing to do for the task any more, after do has returned err.
func (w *work) isOver(err error) bool {
	return w.r == nil || w.r.Task == "" || w.last.State.Terminal() || errors.Is(err, errForgotten)
}

// work is a task that is worked on.
type work struct {
	a      *Agent
	t      *agents.Task
	r      *record
	out    outputs
	last   a2a.TaskStatus
	told   string       // identifies the status that was shown last
	answer *a2a.Message // of a peer that makes no task
	events int
	pace   *rate.Limiter // of the events
	left   bool          // nobody waits for it any more, and the peer does not know
	plain  bool          // the peer does not stream, whatever its card says
	until  time.Time     // when a question that was answered is asked again; zero: never
}

func newPace() *rate.Limiter { return rate.NewLimiter(eventsPerSecond, eventsAtOnce) }

var (
	errForgotten = errors.New("the agent does not know its task any more, which was begun there: what it has done is unknown, and it is not asked a second time: ask again if it has to be")
	errUnknown   = errors.New("the agent was lost while it was asked, and it is unknown whether it has begun: look whether it has, and ask again if not")
)

func (w *work) do(ctx context.Context) (*agents.Result, error) {
	message, attempt, r := w.t.Message.ID, attemptOf(w.t), w.r
	switch {
	case r == nil && records.Continues(w.t):
		return nil, errors.New("the question that this answers was asked by an agent that kept it elsewhere: ask again for all of it")
	case r == nil:
		return w.begin(ctx, w.t.Delivery > 1)
	case r.Answer != nil:
		w.answer = r.Answer
		return w.settle(ctx)
	case r.Failed != "" && r.Message == message:
		return nil, errors.New(r.Failed)
	case r.Failed != "":
		return w.begin(ctx, false)
	case r.Task == "":
		return w.begin(ctx, true)
	}
	// The peer has named its task.
	if err := w.look(ctx); err != nil {
		return nil, err
	}
	waits := w.last.State == a2a.TaskStateInputRequired || w.last.State == a2a.TaskStateAuthRequired
	switch {
	case attempt > r.Attempt && w.last.State.Terminal() && w.last.State != a2a.TaskStateCompleted:
		return w.begin(ctx, false)
	case waits && records.Continues(w.t) && (r.Message != message || r.Reply && r.Asked == w.question()):
		return w.reply(ctx)
	}
	if r.Message != message {
		r.Message, r.Attempt, r.Until = message, attempt, latest(w.t, time.Now())
		if err := w.keep(); err != nil {
			return nil, err
		}
	}
	return w.follow(ctx)
}

func (w *work) keep() error {
	w.r.Of = agents.KeptTask{Tenant: w.t.Tenant, ContextID: w.t.ContextID, ID: w.t.ID}
	return w.a.journal.Write(w.t, w.r)
}

// begin sends the task to the peer. If perhaps, it may have been sent before, and is looked for first.
func (w *work) begin(ctx context.Context, perhaps bool) (*agents.Result, error) {
	id := messageID(w.t, attemptOf(w.t))
	if perhaps && w.r != nil {
		id = w.r.Sent // the attempt before it may still be on its way
	}
	w.out.drop()
	w.out.strayed, w.last = false, a2a.TaskStatus{}
	w.r = &record{Message: w.t.Message.ID, Attempt: attemptOf(w.t), Sent: id, Until: latest(w.t, time.Now())}
	if err := w.keep(); err != nil {
		return nil, err
	}
	if err := w.a.journal.opened(w.t); err != nil {
		return nil, err
	}
	at, err := w.a.journal.context(w.t)
	if err != nil {
		return nil, err
	}
	if perhaps {
		switch found, err := w.find(ctx, at); {
		case err != nil:
			return nil, err
		case found:
			return w.follow(ctx)
		}
	}
	m, err := w.a.message(ctx, w.t, id)
	if err != nil {
		return nil, &refusal{err}
	}
	m.ContextID = at
	return w.send(ctx, m)
}

// reply sends the user's answer to the peer's question.
func (w *work) reply(ctx context.Context) (*agents.Result, error) {
	id := messageID(w.t, attemptOf(w.t))
	m, err := w.a.message(ctx, w.t, id)
	if err != nil {
		return nil, err
	}
	m.TaskID, m.ContextID = w.r.Task, w.r.Context
	w.r.Message, w.r.Attempt, w.r.Sent, w.r.Reply = w.t.Message.ID, attemptOf(w.t), id, true
	w.r.Asked, w.r.Until = w.question(), latest(w.t, time.Now())
	if err := w.keep(); err != nil {
		return nil, err
	}
	if err := w.a.journal.opened(w.t); err != nil {
		return nil, err
	}
	return w.send(ctx, m)
}

// send sends a message, and follows what comes of it.
func (w *work) send(ctx context.Context, m *a2a.Message) (*agents.Result, error) {
	patience, lost := time.Now().Add(awayPatience), false // lost: the peer may have had it, and its answer did not arrive
	for n := 1; ; n++ {
		w.last = a2a.TaskStatus{}
		settled, err := w.post(ctx, m)
		if settled {
			return w.settle(ctx)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if w.r.Task != "" && (err == nil || !w.r.Reply || w.last.State != "") {
			if refused := w.refused(err); refused != nil {
				return nil, refused
			}
			return w.follow(ctx)
		}
		away, unsent := isAway(err)
		lost = lost || away && !unsent
		switch {
		case err == nil:
			return nil, w.failed(errors.New("the agent says nothing, and names no task"))
		case unsent && time.Now().After(patience):
			return nil, w.failed(fmt.Errorf("the agent cannot be reached: %w", err))
		case unsent:
			n--
			w.a.suspect()
		case away && n >= maxSends:
			return nil, w.failed(errUnknown)
		case away && w.r.Task == "":
			found, err := w.find(ctx, m.ContextID)
			if err == nil && !found { // the server may have it, and not have stored it yet
				if err = rest.For(ctx, time.Second); err == nil {
					found, err = w.find(ctx, m.ContextID)
				}
			}
			if err != nil {
				return nil, err
			}
			if found {
				return w.follow(ctx)
			}
			continue
		case !away && w.r.Reply && strings.HasPrefix(w.r.Asked, string(a2a.TaskStateAuthRequired)):
			w.until = time.Now().Add(loginTime) // a peer that waits for a login may take no messages, and go on by itself
			return w.follow(ctx)
		case !w.plain && (errors.Is(err, a2a.ErrUnsupportedOperation) || errors.Is(err, a2a.ErrMethodNotFound)):
			w.plain = true
			continue
		case away, w.r.Reply && n < maxSends && (lost || !isRejected(err)) && w.refused(err) == nil: // a reply that may not have arrived, or that is refused since it has, or for which the peer was busy with its question still
			if err := w.look(ctx); err != nil {
				return nil, err
			}
			if w.question() != w.r.Asked {
				return w.follow(ctx)
			}
		case m.TaskID == "" && m.ContextID != "" && (errors.Is(err, a2a.ErrInvalidParams) || errors.Is(err, a2a.ErrTaskNotFound)):
			m.ContextID = "" // the conversation is too old for the peer
			if err := w.a.journal.setContext(w.t, ""); err != nil {
				return nil, err
			}
			continue
		default:
			return nil, w.failed(err)
		}
		if err := rest.For(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// refused returns the error of a stream that must not be followed up, such as that of a peer that says too much, or nil.
func (w *work) refused(err error) error {
	var refused *refusedError
	if errors.Is(err, errTooMuch) || errors.As(err, &refused) || errors.Is(err, errStrange) {
		return err
	}
	return nil
}

// failed records that there is no task.
func (w *work) failed(err error) error {
	if w.r.Task == "" {
		w.r.Failed = w.explain(err).Error()
		if kept := w.keep(); kept != nil {
			return errors.Join(err, kept)
		}
	}
	return err
}

// idempotencyKey is the header by which a server may know a message that it has had before, as Cortex does.
const idempotencyKey = "idempotency-key"

// post sends a message once. It returns true if the task has been settled meanwhile.
func (w *work) post(ctx context.Context, m *a2a.Message) (settled bool, err error) {
	c, err := w.a.client()
	if err != nil {
		return false, err
	}
	none := 0
	ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{idempotencyKey: []string{m.ID}})
	req := &a2a.SendMessageRequest{Message: m, Config: &a2a.SendMessageConfig{HistoryLength: &none}}
	streams := c.streams && !w.plain
	ctx, end := w.span(ctx, m, streams)
	defer func() { end(err) }()
	if streams {
		return w.listen(ctx, func(ctx context.Context) iter.Seq2[a2a.Event, error] { return c.SendStreamingMessage(ctx, req) })
	}
	req.Config.ReturnImmediately = true
	calling, cancel := context.WithCancel(ctx)
	defer cancel() // an answer has its room until then
	e, err := c.SendMessage(calling, req)
	if err != nil {
		return false, err
	}
	return w.event(e)
}

// listen handles the events of a stream, until the task is settled or the stream ends, or says nothing for too long.
func (w *work) listen(ctx context.Context, open func(context.Context) iter.Seq2[a2a.Event, error]) (settled bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	ctx = context.WithValue(ctx, heardKey{}, func() { silence.Reset(maxSilence) })
	for e, err := range open(ctx) {
		if err != nil {
			if errors.Is(context.Cause(ctx), errSilent) {
				return false, errSilent
			}
			return false, err
		}
		if settled, err := w.event(e); settled || err != nil {
			return settled, err
		}
		if rest.For(ctx, w.pace.Reserve().Delay()) != nil {
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

var (
	errSilent  = &awayError{"the agent says nothing any more", false}
	errStrange = errors.New("the agent's answer cannot be used")
)

// traced adds the task's trace to requests.
func (w *work) traced(ctx context.Context) context.Context {
	return withTrace(ctx, w.t.Traceparent, w.t.Tracestate)
}

func withTrace(ctx context.Context, parent, state string) context.Context {
	p := a2aclient.ServiceParams{}
	if parent != "" {
		p["traceparent"] = []string{parent}
	}
	if state != "" {
		p["tracestate"] = []string{state}
	}
	return a2aclient.AttachServiceParams(ctx, p)
}

// span begins the span of a message that is sent, in whose trace the request then is. The attributes are those that are proposed for A2A.
func (w *work) span(ctx context.Context, m *a2a.Message, streams bool) (in context.Context, end func(error)) {
	method := "SendMessage"
	if streams {
		method = "SendStreamingMessage"
	}
	attrs := []slog.Attr{
		slog.String("a2a.method.name", method), slog.String("a2a.message.id", m.ID), slog.String("a2a.protocol.version", string(a2a.Version)),
		slog.String("gen_ai.conversation.id", w.t.ContextID), slog.String("gen_ai.agent.name", w.a.ID()),
	}
	parent, state, ended := w.t.Span(ctx, method, attrs...)
	return withTrace(ctx, parent, state), func(err error) {
		failure := ""
		switch {
		case err != nil && ctx.Err() != nil:
			failure = "canceled"
		case err != nil:
			failure = "_OTHER"
		}
		ended(failure, slog.String("a2a.task.id", shorten.Line(string(w.r.Task), 128)))
	}
}

// event handles an event. It returns true if the task is settled: it has ended, or its peer asks for something.
func (w *work) event(e a2a.Event) (settled bool, err error) {
	if w.events++; w.events > maxEvents {
		return false, fmt.Errorf("%w: a task has at most %d events", errTooMuch, maxEvents)
	}
	if m, ok := e.(*a2a.Message); ok && m != nil {
		if w.r.Task != "" { // words about it
			w.t.Progress(said(words(m, ""), maxWord))
			return false, nil
		}
		at := m.ContextID
		m = bareMessage(m)
		if err := w.out.hear(m); err != nil {
			return false, err
		}
		if err := w.remember(at); err != nil {
			return false, err
		}
		w.answer, w.r.Answer = m, m
		return true, w.keep()
	}
	if e == nil {
		return false, nil
	}
	info := e.TaskInfo()
	switch {
	case info.TaskID == "":
		return false, fmt.Errorf("%w: an event names no task", errStrange)
	case w.r.Task == "":
		if err := w.adopt(info); err != nil {
			return false, err
		}
	case info.TaskID != w.r.Task:
		return false, nil // another one is none of ours
	}
	switch e := e.(type) {
	case *a2a.Task:
		if err := w.out.set(w.t, e.Artifacts); err != nil {
			return false, err
		}
		return w.status(e.Status), nil
	case *a2a.TaskArtifactUpdateEvent:
		return false, w.out.update(w.t, e)
	case *a2a.TaskStatusUpdateEvent:
		return w.status(e.Status), nil
	}
	return false, nil
}

// status takes a state of the peer's task. States that do not exist count as work.
func (w *work) status(s a2a.TaskStatus) (settled bool) {
	s.State = a2a.TaskState(said(string(s.State), maxID)) // any text can be one
	if m := s.Message; m != nil && s.State == a2a.TaskStateCompleted {
		s.Message = bareMessage(m)
	} else if m != nil { // its words are shown only, and it may be as long as an answer for as long as the task takes
		s.Message = &a2a.Message{ID: said(m.ID, maxID), Role: m.Role, Parts: a2a.ContentParts{a2a.NewTextPart(words(m, ""))}}
	}
	w.last = s
	news := w.question() != w.told
	w.told = w.question()
	switch {
	case s.State.Terminal():
		return true
	case s.State == a2a.TaskStateInputRequired, s.State == a2a.TaskStateAuthRequired:
		return !w.r.Reply || w.question() != w.r.Asked || !w.until.IsZero() && time.Now().After(w.until) // else it is the question that was answered
	}
	if news { // else it is only asked for again, which must not move the deadline
		w.t.Progress(said(words(s.Message, ""), maxWord))
	}
	return false
}

// bareMessage returns a message without what is not passed on.
func bareMessage(m *a2a.Message) *a2a.Message {
	is := &a2a.Message{ID: said(m.ID, maxID), Role: m.Role}
	for _, p := range m.Parts {
		if p != nil {
			is.Parts = append(is.Parts, bare(p))
		}
	}
	return is
}

// adopt keeps the peer's id of the task, as soon as it is known.
func (w *work) adopt(i a2a.TaskInfo) error {
	if len(i.TaskID) > maxID || len(i.ContextID) > maxID {
		return fmt.Errorf("%w: an id has more than %d bytes", errStrange, maxID)
	}
	w.r.Task, w.r.Context = i.TaskID, i.ContextID
	if err := w.keep(); err != nil {
		return err
	}
	return w.remember(i.ContextID)
}

// remember keeps the peer's id of the conversation, for its next task.
func (w *work) remember(id string) error {
	if id == "" || len(id) > maxID {
		return nil
	}
	if known, err := w.a.journal.context(w.t); err == nil && known == id {
		return nil
	}
	return w.a.journal.setContext(w.t, id)
}

// question identifies the peer's question, or what else it says last.
func (w *work) question() string {
	id := string(w.last.State)
	if w.last.Timestamp != nil {
		id += " " + w.last.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	if m := w.last.Message; m != nil {
		id += " " + said(m.ID, maxID)
	}
	return id
}

// settle returns the result of a task that is settled.
func (w *work) settle(ctx context.Context) (*agents.Result, error) {
	if w.answer != nil {
		return w.out.result(ctx, w.t, w.answer)
	}
	switch s := w.last; s.State {
	case a2a.TaskStateCompleted:
		w.last.Message = nil // it is passed on, or refused and not to stay while the peer is told
		return w.out.result(ctx, w.t, s.Message)
	case a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired:
		w.r.Asked, w.r.Reply, w.r.Until = w.question(), false, time.Now().Add(askedFor)
		if err := w.keep(); err != nil {
			return nil, err
		}
		if s.State == a2a.TaskStateAuthRequired {
			return agents.AuthRequired(words(s.Message, "The agent wants you to log in, or to allow it something, and does not say where. Reply when that is done.")), nil
		}
		return agents.InputRequired(words(s.Message, "The agent wants to know more, and does not say what.")), nil
	case a2a.TaskStateRejected:
		return nil, &refusal{errors.New(words(s.Message, "the agent refuses, and does not say why"))}
	case a2a.TaskStateCanceled:
		return nil, errors.New(strings.TrimSuffix("the agent has canceled the task: "+words(s.Message, ""), ": "))
	default:
		return nil, errors.New(words(s.Message, "the agent has failed, and does not say why"))
	}
}

// explain returns an error in words.
func (w *work) explain(err error) error {
	text := ""
	switch {
	case errors.Is(err, a2a.ErrUnsupportedContentType):
		text = "the agent does not take what it is given: "
	case errors.Is(err, a2a.ErrExtensionSupportRequired):
		text = "the agent wants an extension that Cortex does not have: "
	case errors.Is(err, a2a.ErrVersionNotSupported):
		text = "the agent speaks another version of A2A: "
	}
	plain := errors.New(text + said(w.a.credentials().hide(plainURL(err).Error()), 2<<10))
	if _, ok := errors.AsType[*refusal](err); ok || isRejected(err) {
		return agents.Rejected(plain)
	}
	return plain
}

// refusal says that a task was refused, so that nothing was begun.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// isRejected reports whether the peer has refused a message, so that nothing was begun.
func isRejected(err error) bool {
	return slices.ContainsFunc([]error{
		a2a.ErrUnsupportedContentType, a2a.ErrExtensionSupportRequired, a2a.ErrVersionNotSupported, a2a.ErrInvalidParams, a2a.ErrInvalidRequest, a2a.ErrMethodNotFound,
		a2a.ErrUnauthenticated, a2a.ErrUnauthorized,
	}, func(is error) bool { return errors.Is(err, is) })
}

// isCutOff reports whether a connection has broken.
func isCutOff(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
