package traces

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// span is a finished span of a turn.
type span struct {
	id, parent trace.SpanID
	name       string
	kind       trace.SpanKind
	start, end time.Time
	attributes []attribute.KeyValue
	failure    string            // error.type; empty: it went well
	link       trace.SpanContext // to a span of another trace; invalid: none
}

// rootName is the name of the span of a turn.
const rootName = "invoke_workflow cortex"

// maxName bounds an agent's or a model's name in the name of a span, in characters.
const maxName = 64

// attempt is an attempt at a task that its agent has.
type attempt struct {
	task    a2a.TaskID
	agent   string
	number  int
	sentSeq uint64
	sent    time.Time
	goes    bool              // it goes on with a task that has asked
	before  trace.SpanContext // of the turn in another trace that had the task; invalid: none
}

func attemptOf(t *conversation.Task) attempt {
	return attempt{task: t.ID, agent: t.Agent, number: t.Attempt, sentSeq: t.SentSeq, sent: t.Sent, goes: t.Continued}
}

// attemptIn is attemptOf for a turn in a trace. A turn that goes on with a task of an earlier one may be in another trace: only the decision says what
// it does when its message does not name the question, or has a trace of its own.
func attemptIn(conv *conversation.Conversation, turn *conversation.Turn, t *conversation.Task, of trace.TraceID) attempt {
	a := attemptOf(t)
	if !a.goes {
		return a
	}
	for _, earlier := range slices.Backward(conv.Turns) {
		if earlier.Seq >= turn.Seq || !slices.ContainsFunc(earlier.Steps, func(s conversation.Step) bool { return slices.Contains(s.Tasks, t.ID) }) {
			continue
		}
		at := placeOf(conv, earlier)
		if id := at.parent.TraceID(); id != of {
			a.before = within(at.basis, id, rootID(id, earlier.ID))
		}
		break
	}
	return a
}

func (a attempt) id(of trace.TraceID) trace.SpanID {
	return spanID(of, "task", string(a.task), strconv.FormatUint(a.sentSeq, 10))
}

// ended returns the span of an attempt that entry ended.
func (a attempt) ended(conv *conversation.Conversation, turn *conversation.Turn, of trace.TraceID, entry *conversation.Entry) span {
	name := prompt.Clean(a.agent, maxName)
	s := span{
		id: a.id(of), parent: rootID(of, turn.ID), name: "invoke_agent " + name, kind: trace.SpanKindClient, start: a.sent, end: entry.Time,
		attributes: []attribute.KeyValue{
			operation("invoke_agent"), provider, attribute.String(agentName, name), attribute.String(conversationID, conv.ContextID),
			attribute.String(a2aTask, string(a.task)), attribute.Int(cortexAttempt, a.number),
		},
		link: a.before,
	}
	if a.goes {
		s.attributes = append(s.attributes, attribute.Bool(cortexContinued, true))
	}
	t := conv.Tasks[a.task]
	if t == nil {
		return s
	}
	if t.SentSeq != a.sentSeq { // it is tried again
		s.failure = "failed"
		if _, ok := entry.Cause.Payload.(*transport.Deadline); ok {
			s.failure = "deadline"
		}
		return s
	}
	s.attributes = append(s.attributes, attribute.String(a2aState, string(t.State())))
	switch t.Phase {
	case conversation.Failed:
		s.failure = "failed"
		if _, ok := entry.Cause.Payload.(*transport.Deadline); ok {
			s.failure = "deadline"
		}
		if t.Gone {
			s.failure = "agent_gone"
		}
	case conversation.Rejected:
		s.failure = "rejected"
	case conversation.Canceled:
		s.failure = "canceled"
	}
	return s
}

// decided returns the span of the decision in entry.
func decided(conv *conversation.Conversation, turn *conversation.Turn, of trace.TraceID, entry *conversation.Entry) span {
	s := span{
		id: spanID(of, "decision", turn.ID, strconv.FormatUint(entry.Seq, 10)), parent: rootID(of, turn.ID), name: "chat", kind: trace.SpanKindClient,
		start: entry.Time, end: entry.Sent,
		attributes: []attribute.KeyValue{operation("chat"), provider, attribute.String(conversationID, conv.ContextID)},
	}
	if s.end.Before(s.start) {
		s.end = s.start
	}
	spent := entry.Spent()
	s.attributes = append(s.attributes, attribute.Int(inputTokens, spent.Input), attribute.Int(outputTokens, spent.Output),
		attribute.Int(cacheRead, spent.Cached), attribute.Int(cacheWrite, spent.CacheWrite), attribute.Int(reasoning, spent.Reasoning))
	if spent.Cost > 0 {
		s.attributes = append(s.attributes, attribute.Float64(cortexCost, spent.Cost))
	}
	d := entry.Decision
	if d == nil {
		s.failure = "no_decision"
		return s
	}
	model := prompt.Clean(d.Model, maxName)
	s.name = strings.TrimSpace("chat " + model)
	s.attributes = append(s.attributes, attribute.String(requestModel, model), attribute.String(cortexKind, string(d.Kind)), attribute.Int(cortexRepairs, d.Repairs))
	if len(entry.Shortlist) > 0 {
		s.attributes = append(s.attributes, attribute.Int(cortexShown, len(entry.Shortlist)))
	}
	return s
}

// answered returns the span of a turn.
func answered(conv *conversation.Conversation, turn *conversation.Turn, parent trace.SpanContext, content bool) span {
	s := span{
		id: rootID(parent.TraceID(), turn.ID), parent: parent.SpanID(), name: rootName, kind: trace.SpanKindInternal, start: turn.Began, end: turn.Answered,
		attributes: []attribute.KeyValue{
			operation("invoke_workflow"), attribute.String(workflowName, "cortex"), attribute.String(conversationID, conv.ContextID),
			attribute.String(cortexTurn, turn.ID), attribute.String(cortexTenant, conv.Tenant), attribute.String(cortexKind, string(turn.Kind)),
			attribute.Int(cortexDecisions, turn.Decisions),
		},
	}
	if turn.Failed {
		s.failure = "failed"
		if turn.Kind == "" && turn.Answer == conversation.AnswerCanceled {
			s.failure = "canceled"
		}
	}
	if content {
		s.attributes = append(s.attributes, attribute.String(inputMessages, messages("user", turn.User)), attribute.String(outputMessages, messages("assistant", turn.Answer)))
	}
	return s
}
