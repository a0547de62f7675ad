package torture

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// Late is how long an answer may take after the last kill.
const Late = 10 * time.Second

// The kinds of violations.
const (
	Lost       = "lost"         // an accepted message without an answer
	Duplicate  = "duplicate"    // a message that is in the log twice, or has two answers
	Wrong      = "wrong"        // not the right answer
	OutOfOrder = "out_of_order" // a message that is in the log before one that was accepted earlier
	LateAnswer = "late"         // an answer later than Late after the last kill before it
)

// Finding is a violation of one message.
type Finding struct {
	Kind    string   `json:"kind"`
	Context string   `json:"context"`
	Message string   `json:"message"`
	Text    string   `json:"text"`
	History []string `json:"history,omitempty"` // what is known about the message, in order of time
}

// said is a message as its client saw it.
type said struct {
	message
	intent, accepted time.Time // zero: it was not accepted
	answers          []record
}

// history is everything that is known about one conversation.
type history struct {
	talk talk
	said []said                // in order
	log  []*conversation.Entry // all of it
}

// timing has the durations of a run's answers.
type timing struct {
	waits      []time.Duration // from accepted to answered
	recoveries []time.Duration // from the last kill of a turn that was open at that time
	afterAll   time.Duration   // the longest of those that were open at the very last kill
}

// logged is what a log has about one message.
type logged struct {
	at      []int // entries that it caused
	answers []int // entries that answered it
	text    string
}

// check judges a conversation. disturbed are the times of kills, in order; check adds to times.
func (h *history) check(disturbed []time.Time, times *timing) []Finding {
	var found []Finding
	add := func(kind, id, format string, args ...any) {
		found = append(found, Finding{kind, h.talk.id, id, fmt.Sprintf(format, args...), h.tell(id)})
	}
	turns := h.read()
	known := map[string]bool{}
	before := "" // the answer to the previous message
	for _, s := range h.said {
		known[s.id] = true
		l := turns[s.id]
		if l == nil {
			l = &logged{}
		}
		if len(l.at) > 1 {
			add(Duplicate, s.id, "the message is in the log %d times, in entries %v", len(l.at), l.at)
		}
		if len(l.answers) > 1 {
			add(Duplicate, s.id, "the log answers it %d times, in entries %v", len(l.answers), l.answers)
		}
		for i, a := range s.answers {
			if i > 0 && (a.Answer != s.answers[0].Answer || a.Text != s.answers[0].Text) {
				add(Duplicate, s.id, "the user was shown two answers: %.200q and %.200q", s.answers[0].Text, a.Text)
			}
		}
		switch {
		case s.accepted.IsZero(): // nothing was promised
		case len(l.at) == 0:
			add(Lost, s.id, "it was accepted and is not in the log")
		case len(l.answers) == 0:
			add(Lost, s.id, "the log has no answer to it")
		case len(s.answers) == 0:
			add(Lost, s.id, "the user did not learn the answer, which is in entry %d", l.answers[0])
		}
		if len(l.answers) > 0 {
			if why := h.talk.wrong(s.n, l.text, before); why != "" {
				add(Wrong, s.id, "%s", why)
			}
			if len(s.answers) > 0 && s.answers[0].Text != l.text {
				add(Wrong, s.id, "the user was shown %.200q, the log says %.200q", s.answers[0].Text, l.text)
			}
		}
		before = l.text
		if !s.accepted.IsZero() && len(s.answers) > 0 {
			if took, last := times.add(s.accepted, s.answers[0].Time, disturbed); took > Late {
				add(LateAnswer, s.id, "answered %v after %s", took.Round(time.Millisecond), last)
			}
		}
	}
	last := -1
	for i, e := range h.log {
		if e.Seq != uint64(i+1) {
			add(Lost, "", "entry %d of the log has the number %d", i+1, e.Seq)
		}
		if e.Cause == nil || !isUser(e) || e.Cause.From == seedUser {
			continue
		}
		n, err := h.talk.number(e.Cause.ID)
		switch {
		case err != nil || !known[e.Cause.ID]:
			add(Wrong, e.Cause.ID, "entry %d is of a message that nobody said", e.Seq)
		case n < last:
			add(OutOfOrder, e.Cause.ID, "entry %d has it after message %d", e.Seq, last)
		}
		last = max(last, n)
	}
	return found
}

// isUser reports whether an entry was caused by a user's message.
func isUser(e *conversation.Entry) bool {
	m, ok := e.Cause.Payload.(*a2a.Message)
	return ok && m.Role == a2a.MessageRoleUser
}

// answers returns the answer that an entry gives to its turn.
func answers(e *conversation.Entry) (text string, ok bool) {
	switch {
	case e.Decision != nil && e.Decision.Kind == "delegate":
		return "", false
	case e.Decision != nil:
		return e.Decision.Say, true
	}
	return e.Failure, e.Failure != ""
}

// read finds each message in the log.
func (h *history) read() map[string]*logged {
	turns, message := map[string]*logged{}, map[string]string{} // by message id; and message ids by turn
	of := func(id string) *logged {
		if turns[id] == nil {
			turns[id] = &logged{}
		}
		return turns[id]
	}
	for _, e := range h.log {
		if e.Cause != nil && isUser(e) {
			message[e.Turn] = e.Cause.ID
		}
	}
	for _, e := range h.log {
		seq := int(e.Seq)
		if e.Cause != nil && isUser(e) {
			l := of(e.Cause.ID)
			l.at = append(l.at, seq)
		}
		if e.Turn == "" {
			continue
		}
		l := of(message[e.Turn])
		if text, ok := answers(e); ok {
			if l.answers = append(l.answers, seq); len(l.answers) == 1 {
				l.text = text
			}
		}
	}
	return turns
}

// add counts an answer. It returns the time from when the message was accepted, or from the last kill before the answer, and which of the two it is.
func (t *timing) add(accepted, answered time.Time, disturbed []time.Time) (took time.Duration, since string) {
	t.waits = append(t.waits, max(0, answered.Sub(accepted)))
	from, since := accepted, "it was accepted"
	// The last disturbance before the answer.
	i := sort.Search(len(disturbed), func(i int) bool { return disturbed[i].After(answered) }) - 1
	if i >= 0 && disturbed[i].After(accepted) {
		from, since = disturbed[i], "the last kill before it"
		t.recoveries = append(t.recoveries, answered.Sub(from))
		if i == len(disturbed)-1 {
			t.afterAll = max(t.afterAll, answered.Sub(from))
		}
	}
	return answered.Sub(from), since
}

// tell returns what is known about a message, in order of time.
func (h *history) tell(id string) []string {
	type event struct {
		at   time.Time
		text string
	}
	var events []event
	add := func(at time.Time, format string, args ...any) {
		if !at.IsZero() {
			events = append(events, event{at, fmt.Sprintf(format, args...)})
		}
	}
	for _, s := range h.said {
		if s.id != id {
			continue
		}
		add(s.intent, "said: %s", s.text)
		add(s.accepted, "accepted")
		for _, a := range s.answers {
			add(a.Time, "shown (%s): %.200q, id %s", a.Via, a.Text, a.Answer)
		}
	}
	turn := ""
	for _, e := range h.log {
		if e.Cause != nil && isUser(e) && e.Cause.ID == id {
			turn = e.Turn
		}
	}
	for _, e := range h.log {
		if e.Cause == nil || e.Cause.ID != id && (turn == "" || e.Turn != turn) {
			continue
		}
		what := fmt.Sprintf("entry %d of turn %q: %T from %s", e.Seq, e.Turn, e.Cause.Payload, e.Cause.From)
		if e.Cause.TaskID != "" {
			what += fmt.Sprintf(", task %s", e.Cause.TaskID)
		}
		if text, ok := answers(e); ok {
			what += fmt.Sprintf("; answers %.200q", text)
		} else if e.Decision != nil {
			for _, d := range e.Decision.Delegations {
				what += fmt.Sprintf("; gives %s %q", d.Agent, d.Task)
			}
		}
		add(e.Time, "%s", what)
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	var lines []string
	for _, e := range events {
		lines = append(lines, e.at.UTC().Format("15:04:05.000")+"  "+e.text)
	}
	return lines
}

// saidIn returns the messages of a client's file, by conversation.
func saidIn(plan *Plan, client int, records []record) map[string][]said {
	talks := map[string]talk{}
	for _, t := range plan.talks(client) {
		talks[t.id] = t
	}
	all := map[string][]said{}
	for _, r := range records {
		t, ok := talks[r.Context]
		if !ok {
			continue
		}
		list := all[r.Context]
		at := slices.IndexFunc(list, func(s said) bool { return s.id == r.ID })
		if at < 0 {
			list, at = append(list, said{message: t.message(r.N)}), len(list)
		}
		switch s := &list[at]; r.Op {
		case opIntent:
			s.intent = r.Time
		case opAccepted:
			if s.accepted.IsZero() {
				s.accepted = r.Time
			}
		case opAnswer:
			s.answers = append(s.answers, r)
		}
		all[r.Context] = list
	}
	return all
}
