package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Appended counts an entry that was appended to the log of conv, and folded into it.
func (m *Metrics) Appended(conv *conversation.Conversation, entry *conversation.Entry) {
	m.entries.Inc()
	turn := conv.Turn(entry.Turn)
	if turn != nil && turn.Seq == entry.Seq && turn.Reply != nil {
		m.approvals.WithLabelValues(replied(turn.Reply)).Inc()
	}
	m.decided(entry)
	for id := range entry.Retries {
		if t := conv.Tasks[id]; t != nil && len(t.Tried) > 0 {
			m.attempts.WithLabelValues(m.agents.of(t.Tried[len(t.Tried)-1].Agent), reason(entry)).Inc()
		}
	}
	for _, t := range conv.Tasks {
		if t.SettledSeq == entry.Seq && t.Phase.Over() {
			m.ended(entry, t)
		}
	}
	for _, turn := range conv.Turns {
		if turn.AnswerSeq == entry.Seq {
			m.turnEnded(conv, turn)
		}
	}
}

func replied(r *conversation.Reply) string {
	switch {
	case r.Unclear:
		return "unclear"
	case r.Yes:
		return "yes"
	}
	return "no"
}

// decided counts what an entry decides and has spent.
func (m *Metrics) decided(entry *conversation.Entry) {
	model := ""
	d := entry.Decision
	switch {
	case d != nil:
		model = m.models.of(d.Model)
		m.decisions.WithLabelValues(string(d.Kind), model).Inc()
		m.repairs.WithLabelValues(model).Add(float64(d.Repairs))
		m.searches.Add(float64(len(d.Searches)))
		m.decisionDuration.Observe(max(entry.Sent.Sub(entry.Time), 0).Seconds())
	case entry.Failure != "":
		m.decisions.WithLabelValues(failed, m.models.of("")).Inc()
	}
	if spent := entry.Spent(); spent != (llm.Usage{}) {
		if model == "" {
			model = m.models.of("")
		}
		for kind, n := range map[string]int{
			"input": spent.Input, "cached": spent.Cached, "cache_write": spent.CacheWrite, "output": spent.Output, "reasoning": spent.Reasoning,
		} {
			m.tokens.WithLabelValues(model, kind).Add(float64(n))
		}
		m.cost.WithLabelValues(model).Add(spent.Cost)
	}
}

// reason says why an attempt was given up.
func reason(entry *conversation.Entry) string {
	if _, ok := entry.Cause.Payload.(*transport.Deadline); ok {
		return "deadline"
	}
	return failed
}

// ended counts a task that has ended.
func (m *Metrics) ended(entry *conversation.Entry, t *conversation.Task) {
	agent := m.agents.of(t.Agent)
	m.tasks.WithLabelValues(agent, ending(entry, t)).Inc()
	if t.SentSeq != 0 && !t.Sent.IsZero() {
		m.taskDuration.WithLabelValues(agent).Observe(max(t.Settled.Sub(t.Sent), 0).Seconds())
	}
}

func ending(entry *conversation.Entry, t *conversation.Task) string {
	switch t.Phase {
	case conversation.Completed:
		return completed
	case conversation.Canceled:
		return canceled
	case conversation.Rejected:
		return rejected
	}
	if _, ok := entry.Cause.Payload.(*transport.Deadline); ok && t.Turn == entry.Turn && t.SentSeq != 0 {
		if t.Gone {
			return gone
		}
		return timedOut
	}
	return failed
}

// turnEnded counts a turn that has ended.
func (m *Metrics) turnEnded(conv *conversation.Conversation, turn *conversation.Turn) {
	outcome := outcomes[turn.Kind]
	switch {
	case turn.Failed && turn.Kind == "" && turn.Answer == conversation.AnswerCanceled:
		outcome = canceled
	case turn.Failed || outcome == "" && turn.Asked.IsZero():
		outcome = failed
	case outcome == "":
		outcome = clarified // it asks for a yes
	}
	m.turns.WithLabelValues(outcome).Inc()
	m.steps.Observe(float64(turn.Decisions))
	took := max(turn.Answered.Sub(turn.Began), 0)
	trace := ""
	if m.TraceOf != nil {
		trace = m.TraceOf(conv, turn)
	}
	observe(m.turnDuration.WithLabelValues(outcome), took, trace)
}

// observe adds a duration to a histogram, with the trace it is of.
func observe(h prometheus.Observer, took time.Duration, trace string) {
	if e, ok := h.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(took.Seconds())
}
