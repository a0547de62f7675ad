package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const eventStream = "text/event-stream"

// Bounds of a stream of events.
const (
	maxStreams   = 256                   // of a person
	maxBehind    = 1024                  // live events that wait for a browser; beyond them it has to begin anew
	maxWaiting   = 1 << 20               // likewise, bytes of what is shown of them
	writeTime    = 10 * time.Second      // for one write
	joinTime     = 40 * time.Millisecond // between two pieces of text: what is written meanwhile is one of them
	pingTime     = 15 * time.Second      // between signs of life
	pollTime     = 3 * time.Second       // the log is read again, since live events may be lost
	maxProgress  = 300                   // of a line of progress, in characters
	maxLineBytes = 8 * maxProgress       // of its text, in bytes, before it is cleaned
	maxLiveText  = 256 << 10             // of an answer that is being written, in bytes
	maxEarly     = 64                    // tasks whose progress waits for the log
)

// stream sends the events of one conversation to one browser.
type stream struct {
	c       *Console
	w       http.ResponseWriter
	control *http.ResponseController
	who     Person
	reading *reading
	at      conversation.Version // up to which the browser has the conversation
	live    chan *transport.Event
	waiting atomic.Int64  // bytes of what is shown of the events in live
	behind  chan struct{} // closed when live has overflowed
	deltas  []*deltaEvent // not sent yet
	written map[string]int
	early   recent.Shares[string, a2a.TaskID, string] // by agent and task: what it said last of a task that the log does not have yet
}

// Events as a browser gets them.
type (
	turnEvent struct {
		ID   string `json:"id"` // of the element
		HTML string `json:"html"`
	}
	deltaEvent struct {
		Turn    string `json:"turn"`
		Attempt string `json:"attempt"`
		Text    string `json:"text"`
	}
	progressEvent struct {
		Task string `json:"task"`
		Text string `json:"text"`
	}
	noticeEvent struct {
		Text string `json:"text"`
		Gone string `json:"gone,omitempty"` // the element of the message, which is in no log
	}
)

// events streams a conversation: first the turns that have changed after the position in its log that the browser has, then what comes.
func (c *Console) events(w http.ResponseWriter, r *http.Request, who Person) error {
	id, err := contextOf(r)
	if err != nil {
		return err
	}
	leave, err := c.enterStream(w, who)
	if err != nil {
		return err
	}
	defer leave()
	after, err := position(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := &stream{
		c: c, w: w, control: http.NewResponseController(w), who: who, reading: c.readings.enter(c, who, id), at: after,
		live: make(chan *transport.Event, maxBehind), behind: make(chan struct{}), written: make(map[string]int),
	}
	defer c.readings.leave(s.reading)
	if err := s.begin(); err != nil {
		return nil //nolint:nilerr // the browser is gone
	}
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer cancel()
	heard := sync.Once{}
	hearing.Go(func() {
		_ = c.cfg.Client.Listen(ctx, id, func(e *transport.Event) { // when it ends early, the log is polled
			e, n := shown(e)
			if s.waiting.Add(n) <= maxWaiting {
				select {
				case s.live <- e:
					return
				default:
				}
			}
			heard.Do(func() { close(s.behind) })
		})
	})
	switch err := s.run(ctx); {
	case errors.Is(context.Cause(r.Context()), errLapsed):
		_ = s.send("over", 0, struct{}{})
	case errors.Is(err, errOther):
		_ = s.send("resync", 0, struct{}{})
	case err != nil && ctx.Err() == nil && !errors.Is(err, errGone):
		_ = s.send("notice", 0, noticeEvent{Text: prompt.Clean(err.Error(), maxLine)})
	}
	return nil
}

// enterStream counts one more live page of a person, until leave is called.
func (c *Console) enterStream(w http.ResponseWriter, who Person) (leave func(), err error) {
	leave, ok := c.streams.enter(who.User)
	if !ok {
		w.Header().Set("Retry-After", "10")
		return nil, wrong{http.StatusTooManyRequests, fmt.Sprintf("you have %d pages open that are live: close some", maxStreams)}
	}
	return leave, nil
}

// begin begins the answer.
func (s *stream) begin() error {
	s.w.Header().Set("Content-Type", eventStream)
	s.w.Header().Set("X-Accel-Buffering", "no")
	return s.write("retry: 1000\n\n")
}

// errGone is returned when a browser cannot be written to.
var errGone = errors.New("the browser is gone")

// position returns the position in the log up to which a browser has the conversation.
func position(r *http.Request) (conversation.Version, error) {
	last := r.Header.Get("Last-Event-ID")
	last = cmp.Or(last, r.URL.Query().Get("after"))
	if last == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return 0, wrong{http.StatusBadRequest, "this is no position in a log"}
	}
	return conversation.Version(n), nil
}

func (s *stream) run(ctx context.Context) error {
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	if s.reading.version() < s.at { // the conversation was deleted, and perhaps begun anew
		return errOther
	}
	flush, ping, poll := time.NewTimer(time.Hour), time.NewTicker(pingTime), time.NewTicker(pollTime)
	defer flush.Stop()
	defer ping.Stop()
	defer poll.Stop()
	waits := false // flush is set
	var flushed time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.c.cfg.Done:
			return nil // the browser comes again, to another process perhaps
		case <-s.behind:
			return s.send("resync", 0, struct{}{})
		case <-ping.C:
			if err := s.write(": ping\n\n"); err != nil {
				return err
			}
		case <-poll.C:
			if s.reading.stale(pollTime / 2) { // no other page has read it
				if err := s.reading.read(ctx); err != nil {
					return err
				}
			}
			if err := s.tell(); err != nil {
				return err
			}
		case <-flush.C:
			waits, flushed = false, time.Now()
			if err := s.flush(); err != nil {
				return err
			}
		case e := <-s.live:
			_, n := shown(e)
			s.waiting.Add(-n)
			if err := s.hear(ctx, e); err != nil {
				return err
			}
			if len(s.deltas) > 0 && !waits {
				flush.Reset(joinTime - time.Since(flushed)) // the first text at once
				waits = true
			}
		}
	}
}

// shown returns an event with no more of its texts than is shown, as many of them may wait for a browser, and how many bytes these are. It is no copy of e,
// which would keep what e was decoded from.
func shown(e *transport.Event) (*transport.Event, int64) {
	is := &transport.Event{Time: e.Time, From: e.From}
	n := int64(0)
	begin := func(text string, most int) string {
		text = strings.Clone(text[:min(len(text), most)])
		n += int64(len(text))
		return text
	}
	id := func(s string) string { return begin(s, transport.MaxID) } // a payload may have longer ones
	cut := func(parts a2a.ContentParts, most int) a2a.ContentParts {
		return a2a.ContentParts{a2a.NewTextPart(begin(transport.Text(parts), most))}
	}
	switch p := e.Payload.(type) {
	case *transport.Delta:
		if e.From == transport.Cortex { // others' are not shown
			n += int64(len(p.Text))
			is.Payload = p
		}
	case *a2a.TaskStatusUpdateEvent:
		to := &a2a.TaskStatusUpdateEvent{TaskID: a2a.TaskID(id(string(p.TaskID)))}
		if p.Status.Message != nil {
			to.Status.Message = &a2a.Message{Parts: cut(p.Status.Message.Parts, maxLineBytes)}
		}
		is.Payload = to
	case *a2a.TaskArtifactUpdateEvent:
		to := &a2a.TaskArtifactUpdateEvent{TaskID: a2a.TaskID(id(string(p.TaskID)))}
		if p.Artifact != nil {
			to.Artifact = &a2a.Artifact{ID: a2a.ArtifactID(id(string(p.Artifact.ID))), Name: prompt.Clean(p.Artifact.Name, maxWord), Parts: cut(p.Artifact.Parts, maxLineBytes)}
		}
		is.Payload = to
	case *a2a.Message:
		to := &a2a.Message{Role: a2a.MessageRole(id(string(p.Role))), Parts: cut(p.Parts, maxText)}
		for _, k := range []string{transport.MetaTurn, transport.MetaRequester} {
			if v := transport.MetaString(p, k); v != "" {
				to.SetMeta(k, id(v))
			}
		}
		is.Payload = to
	}
	return is, n // of other payloads it is enough that they came
}

// hear handles a live event. Those that the log has, too, are the sign to read it.
func (s *stream) hear(ctx context.Context, e *transport.Event) error {
	own := e.From == transport.Cortex
	if err := s.tell(); err != nil { // what another page has read: an event is shown in its turn
		return err
	}
	switch p := e.Payload.(type) {
	case *transport.Delta:
		if !own {
			return nil
		}
		if len(s.written) == 0 || s.written[p.Turn+" "+p.Attempt] == 0 {
			if err := s.show(p.Turn, e.Time); err != nil {
				return err
			}
		}
		s.delta(p)
		return nil
	case *a2a.TaskStatusUpdateEvent:
		if !own {
			text := ""
			if p.Status.Message != nil {
				text = transport.Text(p.Status.Message.Parts)
			}
			return s.progress(e, p.TaskID, text)
		}
	case *a2a.TaskArtifactUpdateEvent:
		if p.Artifact == nil {
			return nil
		}
		if p.Artifact.ID == transport.TextArtifact {
			return s.progress(e, p.TaskID, transport.Text(p.Artifact.Parts))
		}
		return s.progress(e, p.TaskID, "makes "+prompt.Clean(p.Artifact.Name, maxWord))
	}
	if !own {
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	m, ok := e.Payload.(*a2a.Message)
	if !ok || m.Role != a2a.MessageRoleAgent {
		return nil
	}
	turn := transport.MetaString(m, transport.MetaTurn)
	if s.logged(turn) {
		return nil
	}
	s.c.pending.without(s.reading.key.contextID, s.c.cfg.Now(), func(id string) bool { return id == turn })
	if transport.MetaString(m, transport.MetaRequester) != s.who.User {
		return nil // what others may not say here is for them
	}
	return s.send("notice", 0, noticeEvent{prompt.CleanText(transport.Text(m.Parts), maxText), "t-" + turn}) // the answer to a message that is in no log
}

// logged reports whether the log has a turn.
func (s *stream) logged(turn string) bool {
	s.reading.mu.RLock()
	defer s.reading.mu.RUnlock()
	return s.reading.turns.Conversation.Turn(turn) != nil
}

// show sends a turn that is answered before it is in the log: what it asked is known only if it was asked by way of this process.
func (s *stream) show(id string, at time.Time) error {
	s.reading.mu.RLock()
	has := s.reading.turns.Has(id)
	pending := s.c.pending.without(s.reading.key.contextID, s.c.cfg.Now(), s.reading.turns.Has)
	s.reading.mu.RUnlock()
	if has {
		return nil
	}
	t := &view.Turn{ID: id, Began: at, Text: "…"}
	for _, one := range pending {
		if one.ID == id {
			t = one
		}
	}
	html, err := s.html(t)
	if err != nil {
		return err
	}
	return s.send("turn", 0, turnEvent{"t-" + id, html})
}

// html returns what is shown of a turn of the reading.
func (s *stream) html(t *view.Turn) (string, error) {
	s.reading.mu.RLock()
	defer s.reading.mu.RUnlock()
	return fragment("turn", s.c.turnData(t, s.reading.turns, s.who))
}

// delta adds a piece of an answer to those that are sent next.
func (s *stream) delta(p *transport.Delta) {
	key := p.Turn + " " + p.Attempt
	if s.written[key] += len(p.Text); s.written[key] > maxLiveText {
		return // the whole answer comes from the log
	}
	if n := len(s.deltas); n > 0 && s.deltas[n-1].Turn == p.Turn && s.deltas[n-1].Attempt == p.Attempt {
		s.deltas[n-1].Text += p.Text
		return
	}
	s.deltas = append(s.deltas, &deltaEvent{p.Turn, p.Attempt, p.Text})
}

func (s *stream) flush() error {
	for _, d := range s.deltas {
		d.Text = prompt.CleanText(d.Text, maxLiveText)
		if err := s.send("delta", 0, d); err != nil {
			return err
		}
	}
	s.deltas = nil
	return nil
}

// progress sends what an agent says of its task. Agents are faster than the sign that they were given something: then it waits for the log, which is not
// read for it, since every agent may speak here as often as it likes of tasks that nobody has.
func (s *stream) progress(e *transport.Event, id a2a.TaskID, text string) error {
	if text = prompt.Clean(text, maxProgress); text == "" {
		return nil
	}
	s.reading.mu.RLock()
	t := s.reading.turns.Conversation.Tasks[id]
	known, own := t != nil, t != nil && t.Agent == e.From
	s.reading.mu.RUnlock()
	switch {
	case own:
		return s.send("progress", 0, progressEvent{string(id), text})
	case !known:
		s.early.Put(e.From, id, text, 1, maxEarly)
	}
	return nil
}

// tellEarly sends what agents have said of tasks that the log did not have then.
func (s *stream) tellEarly(tasks []view.Task) error {
	for _, t := range tasks {
		for _, from := range s.early.Owners(t.TaskID) {
			text, _ := s.early.Take(from, t.TaskID)
			if from != t.Agent {
				continue
			}
			if err := s.send("progress", 0, progressEvent{string(t.TaskID), text}); err != nil {
				return err
			}
		}
	}
	return nil
}

// read waits until the stream may read a part of the store, until leave is called.
func (s *stream) read(ctx context.Context) (leave func(), err error) {
	return s.c.enterStore(ctx, s.who.User)
}

// catchUp reads what is new in the log, and sends the turns that have changed.
func (s *stream) catchUp(ctx context.Context) error {
	if err := s.reading.read(ctx); err != nil {
		return err
	}
	return s.tell()
}

// tell sends the turns that have changed after the position that the browser has, as far as the log was read.
func (s *stream) tell() error {
	if s.reading.version() <= s.at {
		return nil
	}
	changed, to := s.reading.since(s.at)
	for i, t := range changed {
		html, err := s.html(t)
		if err != nil {
			return err
		}
		s.reading.mu.RLock()
		answered := t.Answer != nil
		var tasks []view.Task
		for _, task := range t.Tasks {
			tasks = append(tasks, task.Task)
		}
		s.reading.mu.RUnlock()
		if answered {
			clear(s.written)
		}
		at := conversation.Version(0) // only the last one of several completes the position
		if i == len(changed)-1 {
			at = to
		}
		if err := s.send("turn", at, turnEvent{"t-" + t.ID, html}); err != nil {
			return err
		}
		if err := s.tellEarly(tasks); err != nil {
			return err
		}
	}
	s.at = to
	return nil
}

// send sends one event; at is the position in the log that the browser has with it, 0 for none.
func (s *stream) send(name string, at conversation.Version, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := "event: " + name + "\n"
	if at > 0 {
		text += "id: " + strconv.FormatUint(uint64(at), 10) + "\n"
	}
	return s.write(text + "data: " + string(b) + "\n\n")
}

func (s *stream) write(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime)) // a test's writer has none
	if _, err := s.w.Write([]byte(text)); err != nil {
		return errGone
	}
	if err := s.control.Flush(); err != nil {
		return errGone
	}
	return nil
}
