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

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// ErrDamaged is returned by Store.Load for a conversation whose log has lost entries, or has some that are not what was appended. The
// entries before that are yielded. It stays so until somebody repairs the store, or erases the conversation.
var ErrDamaged = errors.New("the log of the conversation is damaged")

// Version is a place in a conversation's log, given by the store: greater is later, 0 is before the first entry.
type Version uint64

// Entry is one record of a conversation's log: an event, and what was decided about it. What Cortex sends follows from
// the log alone, so an entry that is stored is never decided again.
type Entry struct {
	Version Version `json:"-"` // set by the store

	Seq  uint64    `json:"seq"` // place in the conversation, from 1 without gaps
	Time time.Time `json:"time"`
	// Life, made of the first event as the id of a turn is, is in the first entry, and goes into the ids that are derived: a
	// conversation that was erased may begin anew. Old logs have the id of that event, or none.
	Life  string           `json:"life,omitempty"`
	Cause *transport.Event `json:"cause"`
	// Turn is the turn that the entry belongs to, see [transport.TurnID]; in old logs the id of the user's message. Empty when it
	// belongs to none or several.
	Turn string `json:"turn,omitempty"`
	// Heard is how the cause is read as a reply to an open question; see [Conversation.Hear]. Old logs have none.
	Heard string `json:"heard,omitempty"`
	// Decision is what the cause led to; nil when nothing was to be decided.
	Decision *llm.Decision `json:"decision,omitempty"`
	// Failure says why no decision could be made; the user is told.
	Failure string `json:"failure,omitempty"`
	// Roster is what the decision was the first to be shown of the agents; nil when that was nothing.
	Roster *Roster `json:"roster,omitempty"`
	// Shortlist are the agents that the decision was offered out of many, the best first; nil when all were offered.
	Shortlist []Shortlisted `json:"shortlist,omitempty"`
	// Terms are what the decision's delegations were given under, by their ids.
	Terms map[string]Terms `json:"terms,omitempty"`
	// Consent asks the user for a yes: until then the decision's delegations wait.
	Consent string `json:"consent,omitempty"`
	// Withheld says why tasks are not given that could be now, since what they waited for is done: the rules have changed.
	Withheld map[a2a.TaskID]string `json:"withheld,omitempty"`
	// Waited are the tasks whose time ends here while they wait in the orchestrator's queue: their agents never got them.
	Waited []a2a.TaskID `json:"waited,omitempty"`
	// Unfetched are the tasks whose time ends here while they wait in the inboxes of their agents, which have fetched nothing of what is there.
	Unfetched []a2a.TaskID `json:"unfetched,omitempty"`
	// Retries are the tasks that end here without a result and are tried again.
	Retries map[a2a.TaskID]Retry `json:"retries,omitempty"`
	// Rejected says why the result that is the cause was not taken for one: its task fails.
	Rejected string `json:"rejected,omitempty"`
	// Summary stands from now on for the oldest answered turns of the window and the summary before it. When it has no Text,
	// nothing stands for its Turns.
	Summary *llm.Summary `json:"summary,omitempty"`
	// Omitted is how many of the Summary's Turns are left out of its Text, since they could not be summarised.
	Omitted int `json:"omitted,omitempty"`
	// Usage is what was spent beside the decision: on a Summary, whose own Usage is part of it, and on decisions that failed.
	Usage llm.Usage `json:"usage,omitzero"`
	// Sent is when the tasks that this entry sends go out: after Time when the decision took long, or could not be stored at
	// first. Zero, as in old logs, is Time.
	Sent time.Time `json:"sent,omitzero"`
	// Deadline is when the tasks that this entry sends must be done, unless their agent said how long it takes.
	Deadline time.Time `json:"deadline,omitzero"`
	// Asked is when Consent was asked.
	Asked time.Time `json:"asked,omitzero"`
	// ReplyBy is how long the question that the cause asks waits for the user, or Consent.
	ReplyBy time.Time `json:"reply_by,omitzero"`
}

// causeRoom is how many bytes most causes fit into, written down.
const causeRoom = 512

// plainEntry is an Entry as encoding/json writes and reads it.
type plainEntry Entry

// noCause is what encoding/json writes for an entry without its cause. In a string it would have other quotes.
var noCause = []byte(`"cause":null`)

// buffers are those for entries that are not in use, with the room that they have got, which maxBuffer bounds.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxBuffer = 64 << 10

// MarshalJSON writes an entry, with the cause's payload as it came if it is as it came (see [transport.Event.Decode]). The stores call
// it by name: encoding/json would go over every byte of it again.
func (e *Entry) MarshalJSON() ([]byte, error) {
	plain := plainEntry(*e)
	plain.Cause = nil
	if e.Cause == nil {
		return json.Marshal(&plain)
	}
	rest := buffers.Get().(*bytes.Buffer)
	defer func() {
		if rest.Cap() <= maxBuffer {
			rest.Reset()
			buffers.Put(rest)
		}
	}()
	if err := json.NewEncoder(rest).Encode(&plain); err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(bytes.TrimSuffix(rest.Bytes(), []byte("\n")), noCause)
	b := append(make([]byte, 0, rest.Len()+causeRoom), before...)
	b, err := e.Cause.AppendJSON(append(b, noCause[:len(noCause)-len("null")]...))
	if err != nil {
		return nil, err
	}
	b = append(b, after...)
	if bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) > maxNested && !json.Valid(b) {
		return nil, errors.New("it is nested too deeply")
	}
	return b, nil
}

// maxNested is how many values may be nested without a look at how deep: encoding/json reads no more than 10,000 levels.
const maxNested = 5000

// UnmarshalJSON reads an entry. What b does not name stays as it is.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if e.readApart(b) {
		return nil
	}
	return json.Unmarshal(b, (*plainEntry)(e))
}

// readApart reads the cause apart from the rest of b, which is much faster, if b is as MarshalJSON writes it.
func (e *Entry) readApart(b []byte) bool {
	before, cause, found := bytes.Cut(b, []byte(`,"cause":`))
	// No object nor array begins before it, and no string is open.
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
		return false // there is another one
	}
	*e = Entry(plain)
	e.Cause = event
	return true
}

// objectLen returns how long the object is that b begins with, or 0.
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
	Skill  string  `json:"skill,omitempty"` // the one that fits best
	Score  float64 `json:"score,omitempty"` // how likely it fits, from 0 to 1
	Reason string  `json:"reason"`          // "fits", "close" (does not quite, but others do even less), "named", "in use"
}

// MaxTitle bounds a title, in bytes.
const MaxTitle = 80

// Title returns the title that e gives its conversation, see storage.ContextInfo, and whether it gives one: a user's message
// does. Runs of space become one; what does not print is left out, since a title is shown on a terminal.
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

// Spent returns all that an entry cost.
func (e *Entry) Spent() llm.Usage {
	if e.Decision == nil {
		return Credible(e.Usage)
	}
	return Credible(e.Usage).Add(Credible(e.Decision.Usage))
}

const maxTokens = 1 << 40

const maxCost = 1e12

// Credible returns u as far as it can be: an endpoint may report anything, and what is not a number cannot be stored.
func Credible(u llm.Usage) llm.Usage {
	tokens := func(n int) int { return max(0, min(n, maxTokens)) }
	if !(u.Cost > 0) || math.IsInf(u.Cost, 0) {
		u.Cost = 0
	}
	u.Input, u.Cached, u.Output, u.Cost = tokens(u.Input), tokens(u.Cached), tokens(u.Output), min(u.Cost, maxCost)
	return u
}
