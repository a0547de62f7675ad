package llm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// namesOf lists the agents, those spelled most like name first.
func namesOf(t *Turn, name string) string {
	all := t.Agents
	switch {
	case len(all) == 0 && t.Choice:
		return "search for one that fits, or answer the user yourself"
	case len(all) == 0:
		return "no agent is there, answer the user yourself"
	}
	names := Nearest(all, name)
	for i := range names {
		names[i] = excerpt(names[i])
	}
	if more := len(all) - len(names) + max(0, t.More); more > 0 {
		return fmt.Sprintf("there are %s and %d more", strings.Join(names, ", "), more)
	}
	return "there are " + strings.Join(names, ", ")
}

// Nearest returns the ids of at most 8 agents by their edit distance from name.
func Nearest(all []prompt.Agent, name string) []string {
	type near struct {
		id string
		d  int
	}
	ns := make([]near, len(all))
	want := folded(name)
	for i := range all {
		ns[i] = near{all[i].ID, levenshtein.ComputeDistance(want, folded(all[i].ID))}
	}
	slices.SortStableFunc(ns, func(a, b near) int { return cmp.Compare(a.d, b.d) })
	ids := make([]string, 0, maxNearest)
	for _, n := range ns[:min(len(ns), maxNearest)] {
		ids = append(ids, n.id)
	}
	return ids
}

// folded returns the first characters of a name in lower case; comparing the rest would take time for little use.
func folded(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.ToLower(s)
}

// correctAgents replaces unknown agent ids that can only mean one known agent: they differ only in case, or in one character. It never corrects a
// digit: worker_1 and worker_2 are two agents, even while one of them is absent. Nor does it correct the id of an agent that was present, or is
// unavailable.
func correctAgents(t *Turn, ds []Delegation) {
	for i := range ds {
		if name := ds[i].Agent; name != "" && knownAgent(t, name) == nil && !wasListed(&t.Input, name) && whyNot(t, name) == "" {
			if id, ok := meant(t.Agents, name); ok {
				ds[i].Agent = id
			}
		}
	}
}

func meant(all []prompt.Agent, name string) (string, bool) {
	for _, same := range []func(a, b string) bool{strings.EqualFold, slip} {
		found, n := "", 0
		for i := range all {
			if same(name, all[i].ID) {
				found = all[i].ID
				n++
			}
		}
		if n > 0 {
			return found, n == 1
		}
	}
	return "", false
}

// slip reports whether a and b differ in one character that is no digit.
func slip(a, b string) bool {
	if d := len(a) - len(b); len(a) < 4 || len(b) < 4 || d > utf8.UTFMax || d < -utf8.UTFMax {
		return false
	}
	ra, rb := []rune(a), []rune(b)
	for len(ra) > 0 && len(rb) > 0 && ra[0] == rb[0] {
		ra, rb = ra[1:], rb[1:]
	}
	for len(ra) > 0 && len(rb) > 0 && ra[len(ra)-1] == rb[len(rb)-1] {
		ra, rb = ra[:len(ra)-1], rb[:len(rb)-1]
	}
	return len(ra) <= 1 && len(rb) <= 1 && !slices.ContainsFunc(append(ra[:len(ra):len(ra)], rb...), unicode.IsDigit)
}
