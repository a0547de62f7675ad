package a2a

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// sameFor is how long a message that is sent again is the same one.
const sameFor = 24 * time.Hour

// begun is a message that was accepted.
type begun struct {
	r    *record         // its task, with the message
	x    *exchange       // the message
	m    *client.Message // to be sent; nil: it was sent before
	size int64           // bytes that the message takes
	push *target         // that came along and is new
	view view
}

// begin checks a message, and says which turn of which task it is. It sends nothing. The push notification config that comes along is kept when the message
// is admitted: a message that is refused leaves nothing behind.
func (s *Server) begin(ctx context.Context, c *caller, req *a2a.SendMessageRequest) (*begun, error) {
	b, err := s.turnFor(ctx, c, req)
	if err != nil || req.Config == nil || req.Config.PushConfig == nil {
		return b, err
	}
	keep := func() (err error) {
		b.push, err = s.pushAlong(ctx, c, b, req.Config.PushConfig)
		return err
	}
	if b.m == nil {
		return b, keep()
	}
	admit := c.Admit
	c.Admit = func(from string, size int) error {
		if admit != nil {
			if err := admit(from, size); err != nil {
				return err
			}
		}
		return keep()
	}
	return b, nil
}

func (s *Server) turnFor(ctx context.Context, c *caller, req *a2a.SendMessageRequest) (*begun, error) {
	b := &begun{size: c.held.size(), view: view{artifacts: true, questions: isActive(ctx)}}
	if req.Config != nil {
		b.view.history = req.Config.HistoryLength
		if p := req.Config.PushConfig; p != nil {
			if err := s.checkPush(p); err != nil {
				return nil, err
			}
			if p.TaskID != "" && (req.Message == nil || p.TaskID != req.Message.TaskID) {
				return nil, invalid("configuration.taskPushNotificationConfig.taskId: it is of the task of the message")
			}
		}
	}
	if err := b.view.check(); err != nil {
		return nil, err
	}
	m := req.Message
	if err := checkMessage(m); err != nil {
		return nil, err
	}
	var before *record
	var err error
	if m.TaskID != "" {
		if before, err = s.find(ctx, c, m.TaskID); err != nil {
			return nil, err
		}
		if m.ContextID != "" && m.ContextID != before.context() {
			return nil, invalid("contextId: the task %s is in the context %s", m.TaskID, before.context())
		}
	}
	key := param(ctx, "idempotency-key")
	c.trace(ctx)
	if before, err = s.place(ctx, c, b, m, before, key); err != nil || b.m == nil {
		return b, err
	}
	if before != nil && before.state().Terminal() {
		return nil, a2a.NewError(a2a.ErrUnsupportedOperation, fmt.Sprintf("the task is over: it is %s. Send a message with its contextId, and without its taskId", kit.StateName(before.state())))
	}
	b.fill(c, req, before)
	if all := before.asked(); len(all) > 0 {
		b.m.ReplyTo = all[0].turn // a yes is for what this task asks, also when it comes before Cortex knows that the question has arrived
	}
	if isResponse(m) {
		if err := b.respond(m, before); err != nil {
			return nil, err
		}
	}
	b.x = &exchange{id: b.m.ID, turn: c.ID(client.Turn{ContextID: b.m.ContextID, From: b.m.From, MessageID: b.m.ID}), at: c.Clock()}
	b.x.said = &a2a.Message{ID: b.m.ID, Role: a2a.MessageRoleUser, Parts: b.m.Parts, Metadata: b.m.Metadata}
	if before == nil {
		b.r.exchanges, b.r.changes, b.r.local = []*exchange{b.x}, []change{{state: a2a.TaskStateSubmitted, at: b.x.at}}, 1
		return b, nil
	}
	b.r = new(*before)
	b.r.exchanges, b.r.waiting = append(slices.Clip(before.exchanges), b.x), nil
	if b.r.state() != a2a.TaskStateWorking {
		b.r.changes, b.r.local = append(slices.Clip(before.changes), change{state: a2a.TaskStateWorking, at: b.x.at}), 1
	}
	return b, nil
}

// param returns a header of a call, or what gRPC has for it; "" when there is none.
func param(ctx context.Context, name string) string {
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		if of, ok := call.ServiceParams().Get(name); ok && len(of) > 0 {
			return of[0]
		}
	}
	return ""
}

// trace gives the message of a call the call's W3C trace context.
func (c *caller) trace(ctx context.Context) {
	of := transport.Event{Traceparent: param(ctx, "traceparent"), Tracestate: param(ctx, "tracestate")}
	parent, state := of.Trace() // if it is one
	if parent == "" {
		return
	}
	next := c.OnSend
	c.OnSend = func(e *transport.Event) {
		e.Traceparent, e.Tracestate = parent, state
		if next != nil {
			next(e)
		}
	}
}

// place finds out which message of Cortex m is. It sets b.m, with the ids only, and b.r; or, when m was sent before, b.r and b.x only. It returns the
// task that m is for, or nil.
func (s *Server) place(ctx context.Context, c *caller, b *begun, m *a2a.Message, before *record, key string) (*record, error) {
	var words []string // what makes m the same message
	if m.TaskID != "" || m.ContextID != "" || key != "" {
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return nil, invalid("message.parts: %v", err)
		}
		words = []string{c.user(), c.agent, m.ContextID, string(m.TaskID), m.ID, key, string(parts)}
		if isResponse(m) { // which says it in its metadata
			said, err := json.Marshal(m.Metadata[HumanInTheLoop])
			if err != nil {
				return nil, invalid("message.metadata: %v", err)
			}
			words = append(words, "response", string(said))
		}
	}
	contextID, root := "", []byte(nil)
	var spot []byte
	switch {
	case before != nil:
		contextID = before.place
		root, _ = rootOf(before.first().id)
		spot, _ = c.placeOf(contextID)
	case m.ContextID != "":
		spot, _ = c.placeOf(m.ContextID)
	case key != "":
		spot = digest(placeSize, append(words, "place")...)
	default:
		spot = random(placeSize)
	}
	contextID = c.at(spot)
	b.m = &client.Message{ContextID: contextID, From: c.user()}
	var all []*record
	if words != nil && before == nil {
		var err error
		if all, err = s.read(ctx, c, contextID, ""); err != nil {
			return nil, err
		}
	} else if before != nil {
		all = []*record{before}
	}
	for {
		word := random(wordSize)
		if words != nil {
			word = digest(wordSize, words...)
		}
		id := c.taskID(spot, word)
		b.m.ID = messageID0(word)
		if before != nil {
			id, b.m.ID = before.id, messageID0(root)+"."+hex.EncodeToString(word)
		}
		b.r = &record{id: id, place: contextID}
		var sent, waits *record
		if s.pending.get(id, c.Clock()) != nil {
			var err error
			if waits, err = s.find(ctx, c, id); err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
				return nil, err
			}
		}
		for _, r := range append(all, waits) {
			if r.exchange(b.m.ID) != nil {
				sent = r
			}
		}
		if sent == nil {
			return before, nil
		}
		x := sent.exchange(b.m.ID)
		if c.Clock().Sub(x.at) < sameFor {
			if sent.brief {
				whole, err := s.find(ctx, c, sent.id)
				if err != nil {
					return nil, err
				}
				if x = whole.exchange(b.m.ID); x == nil { // another conversation of the name has begun
					return nil, errNoTask(sent.id)
				}
				sent = whole
			}
			b.r, b.x, b.m = sent, x, nil
			return before, nil
		}
		words = append(words, "after "+b.m.ID)
	}
}

// fill sets what the message says.
func (b *begun) fill(c *caller, req *a2a.SendMessageRequest, before *record) {
	m := req.Message
	b.m.Parts = m.Parts
	b.m.Metadata = map[string]any{metaMessage: m.ID, transport.MetaOwn: true}
	if before == nil && m.ContextID != "" && m.ContextID != b.m.ContextID {
		b.m.Metadata[metaContext] = m.ContextID
	}
	if before != nil {
		if chosen := transport.MetaString(before.first().said, metaContext); chosen != "" {
			b.m.Metadata[metaContext] = chosen
		}
	}
	meta := maps.Clone(m.Metadata)
	if len(meta) > 0 {
		b.m.Metadata[metaMetadata] = meta
		for _, key := range []string{transport.MetaHops, transport.MetaAncestors, transport.MetaTimeZone, transport.MetaLocale} { // of one Cortex that asks another
			if v, ok := meta[key]; ok {
				b.m.Metadata[key] = v
			}
		}
	}
	if c.agent != "" && (before == nil || !before.held) {
		b.m.To = &transport.Direct{Agent: c.agent, Skill: transport.MetaString(m, transport.MetaTaskType)}
	}
}

// checkMessage returns an error for a message that cannot be carried out.
func checkMessage(m *a2a.Message) error {
	switch {
	case m == nil:
		return invalid("message is missing")
	case m.ID == "":
		return invalid("message.messageId is missing")
	case len(m.ID) > transport.MaxID:
		return invalid("message.messageId has %d bytes, at most %d are allowed", len(m.ID), transport.MaxID)
	case m.Role != a2a.MessageRoleUser:
		return invalid("message.role is %s: it is %s", quoted(string(m.Role)), a2a.MessageRoleUser)
	case len(m.Parts) == 0:
		return invalid("message.parts is empty")
	case m.ContextID != "" && transport.CheckID(m.ContextID) != nil:
		return invalid("message.contextId: %v", transport.CheckID(m.ContextID))
	}
	for i, p := range m.Parts {
		if p == nil || p.Content == nil {
			return invalid("message.parts[%d] has no content", i)
		}
		if transport.IsFileRef(p) {
			return invalid("message.parts[%d].url is an address of Cortex's own: send the file itself", i)
		}
		if p.MediaType != "" && !takes(p.MediaType) {
			return a2a.NewError(a2a.ErrUnsupportedContentType, fmt.Sprintf("message.parts[%d].mediaType is %s: one of %s is taken", i, quoted(p.MediaType), strings.Join(inputModes, ", ")))
		}
	}
	return nil
}

// inputModes are the media types that every card names.
var inputModes = []string{"text/plain", "application/json", "application/octet-stream", "application/*", "text/*", "image/*", "audio/*", "video/*"}

var outputModes = []string{"text/plain", "application/json", "application/octet-stream"}

// takes reports whether a media type is among the input modes.
func takes(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	group, _, ok := strings.Cut(kind, "/")
	return err == nil && ok && slices.Contains(inputModes, group+"/*")
}

// SendMessage implements a2asrv.RequestHandler. A client that goes away cancels nothing.
func (s *Server) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	waits := req.Config == nil || !req.Config.ReturnImmediately
	if waits {
		if err := s.enter(c); err != nil {
			return nil, err
		}
		defer s.waiting.Leave(c.user())
	}
	b, err := s.begin(ctx, c, req)
	if err != nil {
		return nil, err
	}
	r := b.r
	switch {
	case waits:
		r, err = s.follow(ctx, c, b, false, nil)
	case b.m != nil:
		r, err = s.submit(ctx, c, b)
	}
	if err != nil {
		return nil, err
	}
	return s.show(ctx, c, r, b.view), nil
}

// SendStreamingMessage implements a2asrv.RequestHandler.
func (s *Server) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return s.stream(ctx, func(c *caller) (*begun, error) { return s.begin(ctx, c, req) }, false)
}

// SubscribeToTask implements a2asrv.RequestHandler.
func (s *Server) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return s.stream(ctx, func(c *caller) (*begun, error) {
		r, err := s.find(ctx, c, req.ID)
		if err == nil && r.state().Terminal() {
			err = a2a.NewError(a2a.ErrUnsupportedOperation, fmt.Sprintf("the task is over: it is %s. Get it instead", kit.StateName(r.state())))
		}
		return &begun{r: r, view: view{artifacts: true, questions: isActive(ctx)}}, err
	}, true)
}

// stream yields a task, and then what happens to it, until it is over, or, unless on is set, until it wants input.
func (s *Server) stream(ctx context.Context, begin func(*caller) (*begun, error), on bool) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		c, err := callerOf(ctx)
		if err == nil {
			err = s.enter(c)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.waiting.Leave(c.user())
		b, err := begin(c)
		if err == nil {
			_, err = s.follow(ctx, c, b, on, func(e a2a.Event) bool { return yield(e, nil) })
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

func (s *Server) enter(c *caller) error {
	if !s.waiting.Enter(c.user(), mostWaiting) {
		return exhausted("too many calls of yours are waiting: make it again when some have ended")
	}
	return nil
}

// errBusy is for a large message that would wait too long for those before it.
var errBusy = fmt.Errorf("%w: large messages are sent one after the other", transport.ErrFull)

const (
	pollFirst = 5 * time.Millisecond
	pollMost  = time.Second
	storeTime = 10 * time.Second // for a message to get from the inbox into the log
)

// submit sends a message, and returns its task as soon as the log has it, or after storeTime.
func (s *Server) submit(ctx context.Context, c *caller, b *begun) (*record, error) {
	own, over, ok := s.sender(ctx, c, b)
	if !ok {
		return nil, s.notSent(ctx, c, b, cmp.Or(ctx.Err(), errBusy))
	}
	_, err := own.Send(ctx, b.m)
	over()
	if err != nil {
		return nil, s.notSent(ctx, c, b, err)
	}
	s.sent(b)
	limit, end := context.WithTimeout(ctx, storeTime)
	defer end()
	for pause := pollFirst; rest.For(limit, pause) == nil; pause = min(2*pause, pollMost) {
		r, why, err := s.arrived(ctx, c, b)
		if err != nil {
			return nil, err
		}
		if why != nil {
			return nil, errRefused(why)
		}
		if r != nil {
			return r, nil
		}
	}
	return b.r, ctx.Err()
}

// sent takes note of a task whose message was sent.
func (s *Server) sent(b *begun) {
	if len(b.r.exchanges) == 1 {
		s.pending.put(b.r, b.size)
	}
}

// arrived returns the task with the message of b in it, or why the message was refused, or neither when it is still in the inbox. A task whose first
// message was refused is one that is rejected.
func (s *Server) arrived(ctx context.Context, c *caller, b *begun) (*record, *a2a.Message, error) {
	r, err := s.find(ctx, c, b.r.id)
	if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
		return nil, nil, err
	}
	if x := r.exchange(b.x.id); x != nil && (r.state() != a2a.TaskStateSubmitted) {
		return r, nil, nil
	}
	if len(b.r.exchanges) == 1 {
		return nil, nil, nil
	}
	why, refused, err := storage.RefusalOf(ctx, s.cfg.Store, c.Tenant, b.r.place, c.user(), b.x.id)
	if err != nil {
		return nil, nil, s.away(err)
	}
	if refused {
		return nil, why, nil
	}
	return nil, nil, nil
}

// errRefused is for a message to a task that Cortex does not take.
func errRefused(why *a2a.Message) error {
	return a2a.NewError(a2a.ErrUnsupportedOperation, transport.Text(why.Parts))
}

// notSent returns the error for a message that could not be sent. If it will never arrive, the push notification config that came along goes.
func (s *Server) notSent(ctx context.Context, c *caller, b *begun, err error) error {
	if b.push != nil && (errors.Is(err, transport.ErrInvalid) || errors.Is(err, transport.ErrFull) || errors.Is(err, transport.ErrFilesFull)) {
		if err := s.dropTarget(ctx, c, b.r.id, b.push.ID, b.push.Made); err != nil {
			s.cfg.Logger.Warn("a push notification config of a message that was refused stays for a day", "err", err)
		}
	}
	return s.unsent(err)
}

// unsent returns the error for what could not be sent.
func (s *Server) unsent(err error) error {
	if of, ok := errors.AsType[*a2a.Error](err); ok { // of its push notification config
		return of
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, transport.ErrInvalid):
		return invalid("%v", err)
	case errors.Is(err, transport.ErrFull):
		return exhausted("Cortex has too much to do now, or too much of yours: try again later")
	case errors.Is(err, transport.ErrFilesFull):
		return exhausted(err.Error())
	}
	s.cfg.Logger.Warn("a message cannot be sent", "err", err)
	return a2a.NewError(a2a.ErrServerError, "there is no connection to Cortex now: try again later")
}
