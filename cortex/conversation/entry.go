package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// ErrDamaged is returned by storage.Store.Load for a conversation whose log has lost or altered entries. The entries before the damage are
// yielded. The error is permanent until an operator repairs the store or erases the conversation.
var ErrDamaged = errors.New("the log of the conversation is damaged")

// Version is a place in a conversation's log, assigned by the store: greater is later, 0 is before the first entry.
type Version uint64

// Entry is one record of a conversation's log: an event, and what was decided about it. What Cortex sends follows from the log alone, so a
// stored entry is never decided again.
type Entry struct {
	Version  Version  `json:"-"` // set by the store
	Measured Measured `json:"-"` // set by the process that made it
	// Unmade are the calls that were counted for the entry and that it does not make. They are given back when it is stored, and not before: another process
	// may have taken the event over, and make them.
	Unmade []Call `json:"-"`

	Seq  uint64    `json:"seq"` // place in the conversation, from 1 without gaps
	Time time.Time `json:"time"`
	// Life distinguishes a conversation from an erased one with the same context id. The first entry holds it, derived from its event like a
	// turn id, and all derived ids depend on it. In old logs it is the id of that event, or empty.
	Life  string           `json:"life,omitempty"`
	Cause *transport.Event `json:"cause"`
	// Turn is the turn that the entry belongs to, see [transport.TurnID]; empty when it belongs to none or several. In old logs it is the id
	// of the user's message.
	Turn string `json:"turn,omitempty"`
	// Heard is how the cause is read as a reply to an open question; see [Conversation.Hear]. Old logs have none.
	Heard string `json:"heard,omitempty"`
	// Decision is what was decided about the cause; nil when no decision was needed.
	Decision *llm.Decision `json:"decision,omitempty"`
	// Failure says why no decision could be made. It is the turn's answer.
	Failure string `json:"failure,omitempty"`
	// Roster is what this decision was the first to see of the agents; nil when that was nothing.
	Roster *Roster `json:"roster,omitempty"`
	// Shortlist is the agents that the decision was shown out of many, the best first; nil when it was shown all.
	Shortlist []Shortlisted `json:"shortlist,omitempty"`
	// Terms are the terms of the decision's delegations, by their ids.
	Terms map[string]Terms `json:"terms,omitempty"`
	// Consent is the question that asks the user for a yes. The decision's delegations wait for it.
	Consent string `json:"consent,omitempty"`
	// Withheld says why tasks whose dependencies are now done are not given: the rules have changed meanwhile.
	Withheld map[a2a.TaskID]string `json:"withheld,omitempty"`
	// Waited are the tasks that reach their deadline here while in the orchestrator's queue: their agents never got them.
	Waited []a2a.TaskID `json:"waited,omitempty"`
	// Unfetched are the tasks that reach their deadline here while they wait in their agent's inbox to be fetched, as does all that is in it.
	Unfetched []a2a.TaskID `json:"unfetched,omitempty"`
	// Retries are the tasks whose attempt ends here without a result and that are tried again.
	Retries map[a2a.TaskID]Retry `json:"retries,omitempty"`
	// Rejected says why the result that is the cause is not accepted: it breaks the schema promised for it, or names a file that is not there. Its
	// task fails.
	Rejected string `json:"rejected,omitempty"`
	// Verdicts are what the policy's evaluators say of the result that is the cause. What they redact is not in the cause any more.
	Verdicts []evaluate.Verdict `json:"verdicts,omitempty"`
	// Patterns are the ways in which agents took part in the decision, other than by its delegations; nil when there were none.
	Patterns *Patterns `json:"patterns,omitempty"`
	// Summary replaces the oldest answered turns of the window and the summary before it. With an empty Text its Turns are left out.
	Summary *llm.Summary `json:"summary,omitempty"`
	// Omitted is how many of the Summary's Turns could not be summarised and are not in its Text.
	Omitted int `json:"omitted,omitempty"`
	// Usage is what was spent beside the Decision: on a Summary (whose own Usage is part of it) and on decisions that failed.
	Usage llm.Usage `json:"usage,omitzero"`
	// Sent is when the tasks of this entry are sent: later than Time when the decision took long or could not be stored at first. Zero means
	// Time, as in old logs.
	Sent time.Time `json:"sent,omitzero"`
	// Deadline is the deadline of the tasks that this entry sends, unless their agent's card says how long it takes.
	Deadline time.Time `json:"deadline,omitzero"`
	// Asked is when Consent was asked.
	Asked time.Time `json:"asked,omitzero"`
	// ReplyBy is the deadline for the user's reply, to the question of the cause or to Consent.
	ReplyBy time.Time `json:"reply_by,omitzero"`
}

// Call is a call that a note of the store counts, for a rule of the policy.
type Call struct{ Note, ID string }

// plainEntry is an Entry without methods, for encoding/json.
type plainEntry Entry

// noCause is how encoding/json encodes a missing cause. Within a JSON string its quotes would be escaped.
var noCause = []byte(`"cause":null`)

// encoding is what encoding an entry needs, apart from the result.
type encoding struct {
	bytes.Buffer
	plain plainEntry // without its cause
	cause []byte
}

// encodings holds unused encodings, with buffers of at most maxBuffer bytes each.
var encodings = sync.Pool{New: func() any { return new(encoding) }}

const maxBuffer = 64 << 10

// MarshalJSON encodes an entry. It copies the cause's payload as it was received, if that is unchanged (see [transport.Event.Decode]).
// Stores call it directly, since encoding/json would validate every byte again.
func (e *Entry) MarshalJSON() ([]byte, error) {
	if e.Cause == nil {
		return json.Marshal((*plainEntry)(e))
	}
	rest := encodings.Get().(*encoding)
	defer func() {
		if max(rest.Cap(), cap(rest.cause)) <= maxBuffer {
			rest.Reset()
			rest.plain = plainEntry{} // it refers to the entry's parts
			encodings.Put(rest)
		}
	}()
	rest.plain = plainEntry(*e)
	rest.plain.Cause = nil
	if err := json.NewEncoder(rest).Encode(&rest.plain); err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(bytes.TrimSuffix(rest.Bytes(), []byte("\n")), noCause)
	cause, err := e.Cause.AppendJSON(rest.cause[:0])
	if err != nil {
		return nil, err
	}
	rest.cause = cause
	b := slices.Concat(before, noCause[:len(noCause)-len("null")], cause, after)
	if bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) > maxNested && !json.Valid(b) {
		return nil, errors.New("it is nested too deeply")
	}
	return b, nil
}

// maxNested is how many brackets an encoding may have before its depth is checked: encoding/json reads at most 10,000 levels.
const maxNested = 5000

// UnmarshalJSON decodes an entry. Fields that b does not name keep their values.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if e.readApart(b) {
		return nil
	}
	return json.Unmarshal(b, (*plainEntry)(e))
}

// readApart decodes the cause separately from the rest of b, which is much faster, if b has the form that MarshalJSON writes.
func (e *Entry) readApart(b []byte) bool {
	before, cause, found := bytes.Cut(b, []byte(`,"cause":`))
	// No object or array begins before the cause, and no string is open there.
	if !found || !bytes.HasPrefix(b, []byte(`{"seq":`)) || bytes.ContainsAny(before[1:], `{[\`) || bytes.Count(before, []byte(`"`))%2 != 0 {
		return false
	}
	n := objectLen(cause)
	if n == 0 || n == len(cause) || cause[n] != ',' && cause[n] != '}' {
		return false
	}
	plain, mark, event := plainEntry(*e), new(transport.Event), new(transport.Event)
	plain.Cause = mark
	if event.UnmarshalJSON(cause[:n]) != nil || json.Unmarshal(slices.Concat(before, cause[n:]), &plain) != nil {
		return false
	}
	if plain.Cause != mark || mark.Payload != nil {
		return false // b has a second cause
	}
	*e = Entry(plain)
	e.Cause = event
	return true
}

// objectLen returns the length of the JSON object that b begins with, or 0.
func objectLen(b []byte) int {
	if !bytes.HasPrefix(b, []byte("{")) {
		return 0
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// Shortlisted is one of the candidates that the prompt of a decision has shown.
type Shortlisted struct {
	ID     string  `json:"id"`
	Skill  string  `json:"skill,omitempty"` // the skill that fits best
	Score  float64 `json:"score,omitempty"` // how likely it fits, from 0 to 1
	Reason string  `json:"reason"`          // "fits", "close" (fits poorly, though better than others), "named", "in use"
}

// MaxTitle bounds a title, in bytes.
const MaxTitle = 80

// Title returns the title that e gives its conversation, see storage.ContextInfo, and whether e is a user's message, which gives one. It
// collapses white space and removes what does not print, since terminals show titles.
func (e *Entry) Title() (title string, ok bool) {
	if e.Cause == nil {
		return "", false
	}
	m, ok := transport.Request(e.Cause)
	if !ok {
		return "", false
	}
	var b strings.Builder
	gap := "" // the space before the next word
	for _, r := range prompt.CleanText(transport.Text(m.Parts), 64*MaxTitle) {
		switch {
		case unicode.IsSpace(r):
			if b.Len() > 0 {
				gap = " "
			}
			continue
		case !unicode.IsGraphic(r) || r == utf8.RuneError:
			continue
		}
		if b.Len()+len(gap)+utf8.RuneLen(r) > MaxTitle {
			break
		}
		b.WriteString(gap)
		b.WriteRune(r)
		gap = ""
	}
	return b.String(), true
}

// Spent returns everything that an entry cost.
func (e *Entry) Spent() llm.Usage {
	if e.Decision == nil {
		return Credible(e.Usage)
	}
	return Credible(e.Usage).Add(Credible(e.Decision.Usage))
}

const maxTokens = 1 << 40

const maxCost = 1e12

// Credible returns u with each value limited to a plausible range: an endpoint may report anything, and JSON cannot hold NaN or infinity.
func Credible(u llm.Usage) llm.Usage {
	tokens := func(n int) int { return max(0, min(n, maxTokens)) }
	if !(u.Cost > 0) || math.IsInf(u.Cost, 0) {
		u.Cost = 0
	}
	u.Input, u.Cached, u.CacheWrite = tokens(u.Input), tokens(u.Cached), tokens(u.CacheWrite)
	u.Output, u.Reasoning, u.Cost = tokens(u.Output), tokens(u.Reasoning), min(u.Cost, maxCost)
	return u
}
