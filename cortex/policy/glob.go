package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
)

// maxGlob bounds a glob, in bytes. Ids are shorter.
const maxGlob = 512

// glob is a pattern as [path.Match] has it, except that * and ? stand for / too: an id is no path, and a rule about "bank-*" that
// "bank-a/b" escapes would be a trap.
type glob struct {
	pattern string // with slashes hidden
	prefix  string // what it begins with, up to the first character that is special
	plain   bool   // it is nothing but its prefix
	open    bool   // it is its prefix and *
}

func newGlob(s string) (glob, error) {
	switch {
	case s == "":
		return glob{}, fmt.Errorf("an empty glob matches nothing")
	case len(s) > maxGlob:
		return glob{}, fmt.Errorf("a glob of %d bytes; at most %d are allowed", len(s), maxGlob)
	}
	g := glob{pattern: hideSlashes(s)}
	if _, err := path.Match(g.pattern, ""); err != nil {
		return glob{}, fmt.Errorf("%.100q is no glob: it has a [ or \\ without its end", s)
	}
	special := strings.IndexAny(g.pattern, `*?[\`)
	if special < 0 {
		special, g.plain = len(g.pattern), true
	}
	g.prefix = g.pattern[:special]
	g.open = g.pattern[special:] == "*"
	return g, nil
}

func (g *glob) match(s string) bool {
	s = hideSlashes(s)
	switch {
	case !strings.HasPrefix(s, g.prefix):
		return false
	case g.plain:
		return len(s) == len(g.prefix)
	case g.open:
		return true
	}
	ok, err := path.Match(g.pattern, s)
	return ok && err == nil
}

// hideSlashes puts a character that is in no id in the place of slashes.
func hideSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

type globs []glob

func (g globs) match(s string) bool {
	return slices.ContainsFunc(g, func(g glob) bool { return g.match(s) })
}

// index finds the rules about an agent among many: by what their globs begin with, so that one lookup for each length of these is
// enough.
type index struct {
	byPrefix map[string][]entry
	lengths  []int // of the prefixes, ascending
}

type entry struct {
	glob glob
	rule int
}

func newIndex(rules []*rule) index {
	x := index{byPrefix: map[string][]entry{}}
	for at, r := range rules {
		for _, g := range r.agents {
			x.byPrefix[g.prefix] = append(x.byPrefix[g.prefix], entry{g, at})
			x.lengths = append(x.lengths, len(g.prefix))
		}
	}
	slices.Sort(x.lengths)
	x.lengths = slices.Compact(x.lengths)
	return x
}

// find returns the places of the rules that match, ascending.
func (x *index) find(s string) []int {
	var found []int
	hidden := hideSlashes(s)
	for _, n := range x.lengths {
		if n > len(hidden) {
			break
		}
		for _, e := range x.byPrefix[hidden[:n]] {
			if e.glob.match(s) {
				found = append(found, e.rule)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// maxMemo bounds the agents whose rules are remembered: their ids are strangers' words.
const maxMemo = 1 << 16

// memo remembers which rules are about an agent.
type memo struct {
	mu    sync.RWMutex
	rules map[string][]*rule
}

func (m *memo) get(agent string) (rules []*rule, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	rules, ok = m.rules[agent]
	return rules, ok
}

func (m *memo) put(agent string, rules []*rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rules == nil || len(m.rules) >= maxMemo {
		m.rules = map[string][]*rule{}
	}
	m.rules[agent] = rules
}
