package traces

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

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

// place is where a turn is in a trace.
type place struct {
	parent trace.SpanContext // the span that the turn is a part of; it has no span id when the turn is the root
	basis  trace.SpanContext // what the sampler decides by: a traceparent, or a trace id alone
}

// placeOf returns the place of a turn: below the span that its message names; or, for the reply to a question, below the turn that asked; or else it is
// the root of a trace whose id is derived from the log.
func placeOf(conv *conversation.Conversation, turn *conversation.Turn) place {
	if parent, ok := parse(turn.Trace); ok {
		return place{parent, parent}
	}
	asked := turn.Within
	if asked == nil {
		root := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID(conv, turn.ID)})
		return place{root, root}
	}
	if basis, ok := parse(asked.Trace); ok {
		return place{within(basis, basis.TraceID(), rootID(basis.TraceID(), asked.Turn)), basis}
	}
	basis := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID(conv, asked.Turn)})
	return place{within(basis, basis.TraceID(), rootID(basis.TraceID(), asked.Turn)), basis}
}

func traceID(conv *conversation.Conversation, turn string) trace.TraceID {
	sum := digest("trace", conv.Tenant, conv.ContextID, conv.Life, turn)
	return trace.TraceID(sum[:16])
}

func within(of trace.SpanContext, id trace.TraceID, span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: of.TraceFlags(), TraceState: of.TraceState(), Remote: true})
}

func rootID(of trace.TraceID, turn string) trace.SpanID {
	return spanID(of, "turn", turn)
}

// plannedKey is the key of a context's planned ids.
type plannedKey struct{}

type planned struct {
	trace trace.TraceID
	span  trace.SpanID
}

// generator gives spans the ids that are planned in their context, or else random ones.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	p, _ := ctx.Value(plannedKey{}).(planned)
	if !p.trace.IsValid() {
		_, _ = rand.Read(p.trace[:]) // it never fails
	}
	return p.trace, p.spanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	p, _ := ctx.Value(plannedKey{}).(planned)
	return p.spanID()
}

func (p planned) spanID() trace.SpanID {
	if !p.span.IsValid() {
		_, _ = rand.Read(p.span[:])
	}
	return p.span
}
