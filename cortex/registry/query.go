package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Bounds of a Query.
const (
	maxQueryIDs   = 1_000
	maxQueryTags  = 64
	maxQueryWords = 32
	maxQueryText  = 1_000 // bytes of each text
)

// queryStates are the allowed values of Query.States.
var queryStates = []State{
	StateUnknown, StateActive, StateDraining, StateRefused, State(StatusRegistered), State(StatusReady),
}

// Query selects agents: those that match every field that is set. The zero value selects all. It only filters; a router determines which agents suit
// a request best.
type Query struct {
	// IDs, if any, are the ids of the agents to choose from.
	IDs []string `json:"ids,omitempty"`
	// Ability is the id of a skill, or its name, ignoring case.
	Ability string `json:"ability,omitempty"`
	// Tags must all match, ignoring case: a word matches a tag of the agent or of one of its skills, or the key of a label; "key=value" matches a label.
	Tags []string `json:"tags,omitempty"`
	// Text has words that must all occur, ignoring case and also within longer words, in the agent's id, name, description, tags and labels, or in the
	// ids, names, descriptions and tags of its skills.
	Text string `json:"text,omitempty"`
	// Version is a constraint such as ">=1.2.0 <2.0.0": parts separated by spaces or commas must all hold, "||" separates alternatives, and "^1.2" or
	// "~1.2.3" are ranges. A version that is not semantic matches no constraint, a pre-release only one that names a pre-release.
	Version string `json:"version,omitempty"`
	// Tenant is the tenant of the agent. An agent with a tenant scope must also have it in its scope.
	Tenant string `json:"tenant,omitempty"`
	// States, if any, are the states to choose from; they may include statuses of an AgentSpec (see [Record.Status]).
	States []State `json:"states,omitempty"`
	// Owner is the team that owns the agent, ignoring case.
	Owner string `json:"owner,omitempty"`
	// After, unless empty, starts the result after this id, the last one of the previous page. The agent need not exist any more.
	After string `json:"after,omitempty"`
	// Limit bounds the number of agents; 0 is unlimited.
	Limit int `json:"limit,omitempty"`
}

// Validate returns what is wrong with q, in one line, or nil.
func (q *Query) Validate() error {
	_, err := q.compile()
	return err
}

// Find returns the agents that match q, sorted by id, or the error of [Query.Validate]. The records are shared and read-only.
func (s *Snapshot) Find(q Query) ([]*Record, error) {
	f, err := q.compile()
	if err != nil {
		return nil, err
	}
	agents := s.agents
	if q.After != "" {
		i, there := slices.BinarySearchFunc(agents, q.After, func(r *Record, id string) int { return cmp.Compare(r.ID, id) })
		if there {
			i++
		}
		agents = agents[i:]
	}
	var found []*Record
	for _, r := range agents {
		if !f.fits(r) {
			continue
		}
		if found = append(found, r); len(found) == q.Limit {
			break
		}
	}
	return found, nil
}

// filter is a valid Query, prepared for matching thousands of agents.
type filter struct {
	*Query
	ids     map[string]bool // nil: any
	words   []word          // of Text
	version *versionRange   // nil: any
}

func (q *Query) compile() (*filter, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	f := &filter{Query: q}
	for _, id := range q.IDs {
		if f.ids == nil {
			f.ids = make(map[string]bool, len(q.IDs))
		}
		f.ids[id] = true
	}
	for w := range strings.FieldsSeq(q.Text) {
		if len(f.words) == maxQueryWords {
			return nil, fmt.Errorf("text has more than %d words", maxQueryWords)
		}
		f.words = append(f.words, newWord(w))
	}
	if q.Version != "" {
		var err error
		if f.version, err = newVersionRange(q.Version); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// check enforces the bounds of external queries.
func (q *Query) check() error {
	switch {
	case len(q.IDs) > maxQueryIDs:
		return fmt.Errorf("%d ids: at most %d are allowed", len(q.IDs), maxQueryIDs)
	case len(q.Tags) > maxQueryTags:
		return fmt.Errorf("%d tags: at most %d are allowed", len(q.Tags), maxQueryTags)
	case slices.Contains(q.Tags, ""):
		return errors.New("a tag is empty")
	case q.Limit < 0:
		return fmt.Errorf("limit %d: it must be at least 0, which is no limit", q.Limit)
	}
	for _, s := range q.States {
		if !slices.Contains(queryStates, s) {
			return fmt.Errorf("state %.40q: it is one of %s", s, strings.Join(stateNames(), ", "))
		}
	}
	for name, texts := range map[string][]string{
		"ability": {q.Ability}, "text": {q.Text}, "version constraint": {q.Version}, "tenant": {q.Tenant},
		"owner": {q.Owner}, "after": {q.After}, "tag": q.Tags, "id": q.IDs,
	} {
		for _, t := range texts {
			if len(t) > maxQueryText {
				return fmt.Errorf("%s is %d bytes long, at most %d are allowed", name, len(t), maxQueryText)
			}
		}
	}
	return nil
}

func stateNames() []string {
	names := make([]string, len(queryStates))
	for i, s := range queryStates {
		names[i] = string(s)
	}
	return names
}

// fits reports whether r matches every field that is set, the cheapest first.
func (f *filter) fits(r *Record) bool {
	return (f.ids == nil || f.ids[r.ID]) &&
		(f.Tenant == "" || f.Tenant == r.Tenant && (r.Spec.TenantScope == "" || r.Spec.TenantScope == f.Tenant)) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State) || slices.Contains(f.States, State(r.Status()))) &&
		(f.Owner == "" || strings.EqualFold(f.Owner, r.Spec.OwnerTeam)) &&
		(f.version == nil || f.version.has(r.Version)) &&
		(f.Ability == "" || skillOf(r, f.Ability) != nil) &&
		!slices.ContainsFunc(f.Tags, func(tag string) bool { return !tagged(r, tag) }) &&
		!slices.ContainsFunc(f.words, func(w word) bool { return !w.in(r) })
}

// skillOf returns the skill of r with the id ability, or else the one with that name; nil when there is none.
func skillOf(r *Record, ability string) *a2a.AgentSkill {
	var named *a2a.AgentSkill
	for i := range r.Card.Skills {
		s := &r.Card.Skills[i]
		if s.ID == ability {
			return s
		}
		if named == nil && strings.EqualFold(s.Name, ability) {
			named = s
		}
	}
	return named
}

func tagged(r *Record, tag string) bool {
	same := func(t string) bool { return strings.EqualFold(t, tag) }
	if slices.ContainsFunc(r.Spec.Tags, same) {
		return true
	}
	key, value, isLabel := strings.Cut(tag, "=")
	for k, v := range r.Spec.Labels {
		if strings.EqualFold(k, key) && (!isLabel || strings.EqualFold(v, value)) {
			return true
		}
	}
	return slices.ContainsFunc(r.Card.Skills, func(s a2a.AgentSkill) bool { return slices.ContainsFunc(s.Tags, same) })
}

// word is a word to search for in many texts, ignoring case.
type word struct {
	text string // in lower case
	// The byte of an ASCII word that is rarest in English, in both cases, and its position. Searching for that byte first is several times faster than
	// comparing at every position, or making a lower-case copy of each text.
	rare, upper byte // 0: not ASCII
	at          int
}

func newWord(s string) word {
	const common = "etaoinshrdlcumwfgypbvkjxqz" // letters by decreasing frequency; other characters are rarer
	w := word{text: strings.ToLower(s)}
	rarest := -1
	for i := range len(w.text) {
		c := w.text[i]
		if c >= utf8.RuneSelf {
			return word{text: w.text}
		}
		frequency := strings.IndexByte(common, c)
		if frequency < 0 {
			frequency = len(common)
		}
		if frequency > rarest {
			rarest, w.rare, w.at = frequency, c, i
		}
	}
	w.upper = w.rare
	if 'a' <= w.rare && w.rare <= 'z' {
		w.upper -= 'a' - 'A'
	}
	return w
}

// in reports whether the word occurs in the texts of r.
func (w *word) in(r *Record) bool {
	if w.occurs(r.ID) || w.occurs(r.Card.Name) || w.occurs(r.Card.Description) || slices.ContainsFunc(r.Spec.Tags, w.occurs) {
		return true
	}
	for k, v := range r.Spec.Labels {
		if w.occurs(k) || w.occurs(v) {
			return true
		}
	}
	for i := range r.Card.Skills {
		s := &r.Card.Skills[i]
		if w.occurs(s.ID) || w.occurs(s.Name) || w.occurs(s.Description) || slices.ContainsFunc(s.Tags, w.occurs) {
			return true
		}
	}
	return false
}

func (w *word) occurs(s string) bool {
	if w.rare == 0 {
		return !isASCII(s) && strings.Contains(strings.ToLower(s), w.text)
	}
	if w.occursAt(s, w.rare) {
		return true
	}
	return w.upper != w.rare && w.occursAt(s, w.upper)
}

// occursAt reports whether the word occurs in s with c as its rarest byte.
func (w *word) occursAt(s string, c byte) bool {
	for i := w.at; ; i++ {
		if i >= len(s) {
			return false
		}
		next := strings.IndexByte(s[i:], c)
		if next < 0 {
			return false
		}
		i += next
		start := i - w.at
		if start+len(w.text) > len(s) {
			return false
		}
		if foldsTo(s[start:start+len(w.text)], w.text) {
			return true
		}
	}
}

// foldsTo reports whether s equals lower, ignoring case. lower is lower-case ASCII, and s is at least as long.
func foldsTo(s, lower string) bool {
	for i := range len(lower) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
