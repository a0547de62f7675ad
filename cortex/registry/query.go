package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// What a Query may hold; texts are counted in bytes.
const (
	maxQueryIDs   = 1_000
	maxQueryTags  = 64
	maxQueryWords = 32
	maxQueryText  = 1_000 // of each text
)

// queryStates are what Query.States may hold.
var queryStates = []State{
	StateUnknown, StateActive, StateDraining, StateRefused, State(StatusRegistered), State(StatusReady),
}

// Query chooses agents: one is found when it fits every field that is set. The zero value finds all. It is a filter, which says
// yes or no; which agents suit a request best is for a router to say.
type Query struct {
	// IDs, if any, are the agents to choose from.
	IDs []string `json:"ids,omitempty"`
	// Ability is the id of a skill, or its name with letters of any case.
	Ability string `json:"ability,omitempty"`
	// Tags must all be there, with letters of any case: a word is a tag of the agent or of one of its skills, or the key of a
	// label; "key=value" is a label.
	Tags []string `json:"tags,omitempty"`
	// Text is words that must all occur, also within longer words and with letters of any case, in the agent's id, name,
	// description, tags and labels, or in the ids, names, descriptions and tags of its skills.
	Text string `json:"text,omitempty"`
	// Version is a constraint such as ">=1.2.0 <2.0.0": what a space or a comma separates must all hold, "||" stands between
	// alternatives, and "^1.2" or "~1.2.3" are ranges. A version that is not semantic fits none, a pre-release only one that names
	// a pre-release.
	Version string `json:"version,omitempty"`
	// Tenant is the tenant that the agent must belong to, and be in its scope if it has one.
	Tenant string `json:"tenant,omitempty"`
	// States, if any, are the states to choose from; the status of an AgentSpec (see [Record.Status]) is as good.
	States []State `json:"states,omitempty"`
	// Owner is the team that the agent belongs to, with letters of any case.
	Owner string `json:"owner,omitempty"`
	// After, unless empty, begins the result behind this id: the last one of the page before. That agent need not exist any more.
	After string `json:"after,omitempty"`
	// Limit is how many agents are found at most; 0 is all, which is no more than a registry holds.
	Limit int `json:"limit,omitempty"`
}

// Validate returns what is wrong with q in one line, or nil.
func (q *Query) Validate() error {
	_, err := q.compile()
	return err
}

// Find returns the agents that fit q, in the order of their ids; an error says what [Query.Validate] does. The records are shared:
// they are not to be written to.
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

// filter is a valid Query, prepared to be asked for thousands of agents.
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

// check bounds what strangers may ask for.
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

// fits reports whether r fits every field that is set, the cheapest first.
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

// skillOf returns the skill of r that ability names by its id, else the one that it names by its name; nil when there is none.
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
	for i := range r.Card.Skills {
		if slices.ContainsFunc(r.Card.Skills[i].Tags, same) {
			return true
		}
	}
	return false
}

// word is a word that is looked for in many texts, with letters of any case.
type word struct {
	text string // in lower case
	// The byte of an ASCII word that is rarest in English, and where it is. Texts are searched for it first, in both its cases:
	// that is several times faster than to compare at every place, or to make a copy of each text in lower case.
	rare, upper byte // 0: not ASCII
	at          int
}

func newWord(s string) word {
	const common = "etaoinshrdlcumwfgypbvkjxqz" // letters, the most frequent first; anything else is rarer
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

// in reports whether the word occurs in what r says of itself.
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

// foldsTo reports whether s is lower, which is ASCII in lower case and as long, but for the case of its letters.
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
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
