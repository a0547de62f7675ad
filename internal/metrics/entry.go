package metrics

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Appended counts an entry that was appended to the log of conv, and folded into it.
func (m *Metrics) Appended(conv *conversation.Conversation, entry *conversation.Entry) {
	m.entries.Inc()
	m.appending.Observe(entry.Measured.Appending.Seconds())
	m.open.follow(conv, time.Now(), true)
	turn := conv.Turn(entry.Turn)
	m.waited(conv, entry)
	m.said(conv, turn, entry)
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
			m.ended(conv, entry, t)
		}
	}
	for _, turn := range conv.Turns {
		if turn.AnswerSeq == entry.Seq {
			m.turnEnded(conv, turn)
		}
	}
}

// Loaded implements cortex.Follower.
func (m *Metrics) Loaded(conv *conversation.Conversation) { m.open.follow(conv, time.Now(), false) }

// Deleted implements cortex.Follower.
func (m *Metrics) Deleted(key conversation.Key) { m.open.forget(key) }

// waited counts how long the task waited for its agent whose result, or question, is the cause of entry.
func (m *Metrics) waited(conv *conversation.Conversation, entry *conversation.Entry) {
	p, ok := entry.Cause.Payload.(*a2a.Task)
	if !ok {
		return
	}
	t := conv.Tasks[p.ID]
	worked, ok := transport.Float(p.Metadata[transport.MetaWorked])
	if t == nil || !ok || t.SettledSeq != entry.Seq || t.Agent != entry.Cause.From || t.Sent.IsZero() {
		return
	}
	waits, all := time.Duration(0), max(entry.Time.Sub(t.Sent), 0)
	if worked < all.Seconds() { // else it says what cannot be
		waits = all - time.Duration(max(worked, 0)*float64(time.Second))
	}
	observe(m.taskQueue.WithLabelValues(m.agents.of(t.Agent)), waits, m.trace(conv, conv.Turn(t.Turn)))
}

// said counts when the first text of a turn was shown, if that was with entry: while it was decided, or the answer itself.
func (m *Metrics) said(conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) {
	if entry.Decision == nil || turn == nil {
		return
	}
	before := turn.Steps
	if n := len(before); n > 0 && entry.Decision.Kind.Delegates() {
		before = before[:n-1] // without that of the entry
	}
	for i := range before {
		if before[i].Say != "" {
			return
		}
	}
	at := entry.Measured.FirstText
	switch {
	case !at.IsZero():
	case turn.AnswerSeq == entry.Seq:
		at = turn.Answered
	default:
		return
	}
	observe(m.firstText, max(at.Sub(turn.Began), 0), m.trace(conv, turn))
}

// trace returns the trace id of a turn, which may be nil, or "".
func (m *Metrics) trace(conv *conversation.Conversation, turn *conversation.Turn) string {
	if m.TraceOf == nil || turn == nil {
		return ""
	}
	return m.TraceOf(conv, turn)
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
		m.shown.Observe(float64(entry.Measured.Shown))
	case entry.Failure != "":
		if scope := entry.Measured.Exhausted; scope != "" {
			m.exhausted.WithLabelValues(scope).Inc()
		}
		m.decisions.WithLabelValues(failed, m.models.of("")).Inc()
	}
	if len(entry.Shortlist) > 0 {
		m.routing.Observe(entry.Measured.Routing.Seconds())
		m.topScore.Observe(entry.Shortlist[0].Score)
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
func (m *Metrics) ended(conv *conversation.Conversation, entry *conversation.Entry, t *conversation.Task) {
	agent := m.agents.of(t.Agent)
	m.tasks.WithLabelValues(agent, ending(entry, t)).Inc()
	if t.SentSeq != 0 && !t.Sent.IsZero() {
		observe(m.taskDuration.WithLabelValues(agent), max(t.Settled.Sub(t.Sent), 0), m.trace(conv, conv.Turn(t.Turn)))
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
	observe(m.turnDuration.WithLabelValues(outcome), took, m.trace(conv, turn))
}

// observe adds a duration to a histogram, with the trace it is of.
func observe(h prometheus.Observer, took time.Duration, trace string) {
	if e, ok := h.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(took.Seconds())
}
