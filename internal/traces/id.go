package traces

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// digest returns a hash of words. Unlike a UUID it has no fixed bits, so that samplers by ratio find trace ids evenly distributed.
func digest(words ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, w := range words {
		h.Write(binary.AppendUvarint(nil, uint64(len(w)))) // "a", "bc" is not "ab", "c"
		h.Write([]byte(w))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func spanID(of trace.TraceID, words ...string) (id trace.SpanID) {
	sum := digest(append([]string{string(of[:])}, words...)...)
	copy(id[:], sum[:])
	return id
}

// origin returns the turn with which a trace began: the turn itself or, for the reply to a question for a yes, the one that asked.
func origin(conv *conversation.Conversation, turn *conversation.Turn) *conversation.Turn {
	for turn.Reply != nil && turn.Trace.Parent == "" && len(turn.Reply.Tasks) > 0 {
		i := slices.IndexFunc(conv.Turns, func(t *conversation.Turn) bool {
			return t.Seq < turn.Seq && slices.ContainsFunc(t.Steps, func(s conversation.Step) bool { return slices.Contains(s.Tasks, turn.Reply.Tasks[0]) })
		})
		if i < 0 {
			break
		}
		turn = conv.Turns[i]
	}
	return turn
}

// contextOf returns the trace of a turn: that of the message, or else one that is derived from the log. parent is the span that the turn is a part of;
// it has no span id when the turn is the root.
func contextOf(conv *conversation.Conversation, turn *conversation.Turn) (parent trace.SpanContext) {
	first := origin(conv, turn)
	if parent, ok := parse(first.Trace); ok && first == turn {
		return parent
	} else if ok {
		return within(parent, parent.TraceID(), rootID(parent.TraceID(), first))
	}
	sum := digest("trace", conv.Tenant, conv.ContextID, conv.Life, first.ID)
	id := trace.TraceID(sum[:16])
	if first == turn {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id})
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: rootID(id, first), Remote: true})
}

func within(of trace.SpanContext, id trace.TraceID, span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: of.TraceFlags(), TraceState: of.TraceState(), Remote: true})
}

func rootID(of trace.TraceID, turn *conversation.Turn) trace.SpanID {
	return spanID(of, "turn", turn.ID)
}

// plannedKey is the key of a context's planned ids.
type plannedKey struct{}

type planned struct {
	trace trace.TraceID
	span  trace.SpanID
}

// generator gives spans the ids that are planned in their context.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(plannedKey{}).(planned)
	return p.trace, p.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(plannedKey{}).(planned)
	return p.span
}
