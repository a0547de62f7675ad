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

// glob is a pattern of [path.Match], except that * and ? also match /: an id is no path, and it would be a trap if "bank-*" did not match "bank-a/b".
type glob struct {
	pattern string // with slashes replaced
	prefix  string // the literal beginning, up to the first special character
	plain   bool   // the pattern has no special characters
	open    bool   // the pattern is the prefix followed by *
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

// hideSlashes replaces slashes by a character that is in no id.
func hideSlashes(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

type globs []glob

func (g globs) match(s string) bool {
	return slices.ContainsFunc(g, func(g glob) bool { return g.match(s) })
}

// maxMemo bounds the agents whose rules are cached, since agents choose their ids.
const maxMemo = 1 << 16

// memo caches which rules match an agent.
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
