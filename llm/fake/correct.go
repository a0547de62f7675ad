package fake

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// maxCorrected bounds a request that is looked through for a correction, in bytes.
const maxCorrected = 500

// correction takes back what stands before it.
var correction = regexp.MustCompile(`(?i)[,;.!?–—-]*\s*\b(?:(?:oh|no),? wait|wait,? no|no,? sorry|sorry,? no|scratch that|no,? make (?:that|it)|make that|or rather|(?:no,? |sorry,? )?i meant?)\b[\s,:.…]*`)

// correcting are words of which each correction has one.
var correcting = []string{"wait", "sorry", "scratch", "make", "rather", "mean"}

// corrected understands a request that takes back its last part, as in "10 km in miles, no wait, 10 m in feet": as that part would be when it were said
// behind the answer. It returns nil when either half is not understood, since then it may be told to somebody.
func (m *matcher) corrected(t *llm.Turn) []piece {
	text := strings.TrimSpace(t.User)
	if len(text) > maxCorrected || contentAt(text) > 0 {
		return nil
	}
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(correcting, func(word string) bool { return strings.Contains(lower, word) }) {
		return nil // nearly always, and far faster than the expression
	}
	all := correction.FindAllStringIndex(masked(text), -1)
	if len(all) == 0 || all[len(all)-1][0] == 0 || all[len(all)-1][1] == len(text) {
		return nil
	}
	at := all[len(all)-1]
	first := *t
	first.User = text[:at[0]]
	pieces := m.understand(&first)
	var tasks []prompt.Task
	for _, p := range pieces {
		if p.unknown != "" || p.called {
			return nil
		}
		tasks = append(tasks, prompt.Task{Agent: m.agents[p.agent].ID, Skill: p.skill, Text: p.task})
	}
	if len(pieces) == 0 {
		return nil
	}
	strange := m.strange
	then := *t
	then.User = "no, " + text[at[1]:]
	then.History = append(t.History[:len(t.History):len(t.History)], prompt.Turn{User: first.User, Steps: []prompt.Step{{Tasks: tasks}}})
	meant := m.understand(&then)
	if len(meant) == 0 {
		return nil
	}
	m.strange = append(strange, m.strange...)
	return append(pieces[:len(pieces)-1:len(pieces)-1], meant...)
}
