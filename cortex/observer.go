package cortex

import (
	"context"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Observer is told of each entry that an Orchestrator adds to a log, such as to count it. Since an event has one entry however often it is
// delivered, what follows from an entry is counted once.
type Observer interface {
	// Appended is called after entry was stored and folded into conv, before its effects are sent. A turn waits for it, so it does no I/O. It
	// keeps neither conv nor entry. Conversations call it concurrently.
	Appended(conv *conversation.Conversation, entry *conversation.Entry)
}

// Follower is an Observer that knows which turns and tasks are open at any time, also those that another process has begun. Its methods are called
// like Appended.
type Follower interface {
	Observer
	// Loaded is called with a conversation that was read from its log, to which other processes may have added.
	Loaded(conv *conversation.Conversation)
	// Deleted is called when a conversation was deleted.
	Deleted(key conversation.Key)
}

// loaded tells the observers of a conversation that was read from its log.
func (o *Orchestrator) loaded(conv *conversation.Conversation) {
	for _, ob := range o.cfg.Observers {
		if f, ok := ob.(Follower); ok {
			f.Loaded(conv)
		}
	}
}

// deleted tells the observers of a conversation that was deleted.
func (o *Orchestrator) deleted(key conversation.Key) {
	for _, ob := range o.cfg.Observers {
		if f, ok := ob.(Follower); ok {
			f.Deleted(key)
		}
	}
}

// Tracer is an Observer that gives the events that follow from entries their place in a trace.
type Tracer interface {
	Observer
	// Trace returns the W3C trace context of an event that entry seq or an earlier one of conv sends: that of the work to which the event belongs.
	// Parent is empty when the event has none. The result depends on the log alone.
	Trace(conv *conversation.Conversation, e *transport.Event) conversation.Trace
	// Within returns ctx with the trace of a turn, or of the attempt at a task of it unless that is nil: what is done and logged with it belongs there.
	Within(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, task *conversation.Task) context.Context
}

// observe tells the observers of an entry.
func (o *Orchestrator) observe(conv *conversation.Conversation, entry *conversation.Entry) {
	for _, ob := range o.cfg.Observers {
		ob.Appended(conv, entry)
	}
}

// trace sets the trace context of an effect.
func (o *Orchestrator) trace(conv *conversation.Conversation, out conversation.Effect) {
	for _, ob := range o.cfg.Observers {
		t, ok := ob.(Tracer)
		if !ok {
			continue
		}
		if trace := t.Trace(conv, out.Event); trace.Parent != "" {
			out.Event.Traceparent, out.Event.Tracestate = trace.Parent, trace.State
		}
	}
}

// within returns ctx with the trace of a task, or else of a turn; both may be unknown.
func (o *Orchestrator) within(ctx context.Context, conv *conversation.Conversation, turnID string, id a2a.TaskID) context.Context {
	for _, ob := range o.cfg.Observers {
		t, ok := ob.(Tracer)
		if !ok {
			continue
		}
		task := conv.Tasks[id]
		if task != nil {
			turnID = task.Turn
		}
		if turn := conv.Turn(turnID); turn != nil {
			ctx = t.Within(ctx, conv, turn, task)
		}
	}
	return ctx
}
