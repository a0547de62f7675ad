package agents

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of progress.
const (
	progressInterval = 100 * time.Millisecond // between two texts of one task
	maxProgress      = 1 << 10                // bytes of a text
	liveTimeout      = 2 * time.Second        // for publishing one event
)

// live publishes what a task shows while it is worked on, on a best effort: without retries, and without blocking for long.
type live struct {
	a     *agent
	task  *transport.Event // the task's event, for its addresses
	turn  any              // the turn's id, for watchers
	id    a2a.TaskID
	ended chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	pending string // the newest progress that was not sent
	said    []byte // the result's text that was not sent
	began   bool   // some text was sent
	sending bool   // a goroutine sends pending and said
	closed  bool
}

func (l *live) progress(text string) {
	if text = shorten.Line(text, maxProgress); text == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.pending = text
	l.begin()
}

func (l *live) stream(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.said = append(l.said, text...)
	l.begin()
}

// startOver has the next text replace what was shown.
func (l *live) startOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said, l.began = nil, false
}

// begin starts sending unless a goroutine is sending already; l.mu is held.
func (l *live) begin() {
	if !l.sending {
		l.sending = true
		l.wg.Go(l.send)
	}
}

// send sends progress and text until none is left, with a pause after each.
func (l *live) send() {
	for {
		text, said, first, ok := l.next()
		if !ok {
			return
		}
		if text != "" {
			l.publishProgress(text)
		}
		if said != "" {
			l.publishText(said, first)
		}
		select {
		case <-time.After(progressInterval):
		case <-l.ended:
		}
	}
}

// next returns the progress and the text to send. It keeps an incomplete character until it is complete, or until the end.
func (l *live) next() (text, said string, first, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.said)
	if !l.closed {
		n = shorten.Whole(l.said)
	}
	text, said, first = l.pending, strings.ToValidUTF8(string(l.said[:n]), "\uFFFD"), !l.began
	l.pending, l.said = "", append([]byte(nil), l.said[n:]...)
	l.began = l.began || said != ""
	l.sending = text != "" || said != ""
	return text, said, first, l.sending
}

// close sends the remaining text; nothing is sent after it.
func (l *live) close() {
	l.mu.Lock()
	l.closed = true
	if len(l.said) > 0 { // an incomplete character
		l.begin()
	}
	l.mu.Unlock()
	close(l.ended)
	l.wg.Wait()
}

func (l *live) publishProgress(text string) {
	now, id := time.Now(), l.a.nextID()
	m := &a2a.Message{ID: id, ContextID: l.task.ContextID, TaskID: l.id, Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	l.publish(&a2a.TaskStatusUpdateEvent{
		TaskID: l.id, ContextID: l.task.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Message: m, Timestamp: &now},
	})
}

// publishText publishes a piece of the result's text.
func (l *live) publishText(text string, first bool) {
	l.publish(&a2a.TaskArtifactUpdateEvent{
		TaskID: l.id, ContextID: l.task.ContextID, Append: !first,
		Artifact: &a2a.Artifact{ID: transport.TextArtifact, Parts: a2a.ContentParts{a2a.NewTextPart(text)}},
	})
}

// publish publishes an update on the conversation's live topic.
func (l *live) publish(update a2a.MetadataCarrier) {
	update.SetMeta(transport.MetaAgentID, l.a.id)
	if l.turn != nil {
		update.SetMeta(transport.MetaTurn, l.turn)
	}
	ctx, cancel := context.WithTimeout(l.a.sending, liveTimeout)
	defer cancel()
	e := &transport.Event{
		ID: l.a.nextID(), Time: time.Now(), From: l.a.id, Tenant: l.a.o.Tenant, ContextID: l.task.ContextID, TaskID: l.id,
		Traceparent: l.task.Traceparent, Tracestate: l.task.Tracestate, Payload: update,
	}
	if err := l.a.tr.Publish(ctx, transport.Live(l.a.o.Tenant, l.task.ContextID), e); err != nil {
		l.a.log.Debug("progress not shown", "task_id", l.id, "err", err)
	}
}
