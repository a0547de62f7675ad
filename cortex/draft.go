package cortex

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// A draft is sent on when it has this much, or is this old: a fast model does not cost an event a word, and one that is done at
// once costs none, since the answer itself follows.
const (
	draftBytes = 1024
	draftAge   = 25 * time.Millisecond
)

// draft shows the text of an answer on Live while it is being written.
type draft struct {
	o     *Orchestrator
	ctx   context.Context //nolint:containedctx // lives as long as the one call it is made for
	topic transport.Topic
	turn  string

	mu      sync.Mutex
	attempt string
	pending strings.Builder
	late    *time.Timer // sends what is pending when the model is silent
}

func (o *Orchestrator) newDraft(ctx context.Context, conv *Conversation, turn *Turn) *draft {
	return &draft{o: o, ctx: ctx, topic: transport.Live(conv.Tenant, conv.ContextID), turn: turn.ID}
}

func (d *draft) write(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending.WriteString(text)
	switch {
	case d.pending.Len() >= draftBytes:
		d.send()
	case d.late == nil:
		d.late = time.AfterFunc(draftAge, d.flush)
	}
}

// end sends what is pending, unless nothing was shown yet.
func (d *draft) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempt == "" {
		d.pending.Reset()
	}
	d.send()
}

// flush sends what is pending.
func (d *draft) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.send()
}

func (d *draft) send() {
	if d.late != nil {
		d.late.Stop()
		d.late = nil
	}
	if d.pending.Len() == 0 {
		return
	}
	if d.attempt == "" {
		d.attempt = d.o.cfg.NewID()
	}
	err := d.o.cfg.Transport.Publish(d.ctx, d.topic, &transport.Event{
		ID: d.o.cfg.NewID(), Time: d.o.cfg.Now(), From: transport.Cortex, Tenant: d.topic.Tenant, ContextID: d.topic.ID,
		Payload: &transport.Delta{Turn: d.turn, Attempt: d.attempt, Text: d.pending.String()},
	})
	if err != nil {
		d.o.log.Debug("text not shown", "context_id", d.topic.ID, "err", err)
	}
	d.pending.Reset()
}
