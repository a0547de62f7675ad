package decide

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A draft is sent on when it has this much, or is this old: a fast model does not cost an event a word, and one that is done at
// once costs none, since the answer itself follows.
const (
	draftBytes = 1024
	draftAge   = 25 * time.Millisecond
)

// draft shows the text of an answer on Live while it is being written. Who writes does not wait for the transport.
type draft struct {
	m     *Maker
	ctx   context.Context //nolint:containedctx // lives as long as the one call it is made for
	topic transport.Topic
	turn  *conversation.Turn

	// Made when there is something to show; some and enough have one when something, or as much as draftBytes, is pending.
	some, enough chan struct{}
	over         chan struct{} // closed by end
	sender       sync.WaitGroup

	mu      sync.Mutex
	begun   bool // the sender runs
	ended   bool
	pending strings.Builder
}

func (m *Maker) newDraft(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn) *draft {
	return &draft{m: m, ctx: ctx, topic: transport.Live(conv.Tenant, conv.ContextID), turn: turn}
}

func (d *draft) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended || text == "" {
		return
	}
	if !d.begun {
		d.begun = true
		d.some, d.enough, d.over = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
		d.sender.Go(d.send)
	}
	d.pending.WriteString(text)
	signal(d.some)
	if d.pending.Len() >= draftBytes {
		signal(d.enough)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// end sends what is pending, unless nothing was shown yet, and waits for that.
func (d *draft) end() {
	d.mu.Lock()
	if !d.ended {
		d.ended = true
		if d.begun {
			close(d.over)
		}
	}
	d.mu.Unlock()
	d.sender.Wait()
}

// send publishes what is pending, in its order, until the draft ends.
func (d *draft) send() {
	attempt := ""
	show := func(text string) {
		if text == "" {
			return
		}
		if attempt == "" {
			attempt = d.m.cfg.NewID()
		}
		err := d.m.cfg.Transport.Publish(d.ctx, d.topic, &transport.Event{
			ID: d.m.cfg.NewID(), Time: d.m.cfg.Now(), From: transport.Cortex, Tenant: d.topic.Tenant, ContextID: d.topic.ID,
			Traceparent: d.turn.Trace.Parent, Tracestate: d.turn.Trace.State,
			Payload: &transport.Delta{Turn: d.turn.ID, Attempt: attempt, Text: text},
		})
		if err != nil {
			d.m.log.Debug("text not shown", "context_id", d.topic.ID, "err", err)
		}
	}
	for {
		select {
		case <-d.some:
		case <-d.over:
			if attempt != "" {
				show(d.take())
			}
			return
		}
		late := time.NewTimer(draftAge)
		select {
		case <-late.C: // the model is silent, or slow
		case <-d.enough:
		case <-d.over:
		}
		late.Stop()
		if attempt == "" && d.isOver() {
			return
		}
		show(d.take())
	}
}

func (d *draft) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// take returns what is pending, which it is no longer.
func (d *draft) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := d.pending.String()
	d.pending.Reset()
	select {
	case <-d.enough:
	default:
	}
	return text
}
