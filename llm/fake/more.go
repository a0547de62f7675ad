package fake

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Read-only.
var (
	// ofThis are words that can precede the colon of a continuation: "and of:", "the same for this one:".
	ofThis = set(`of for with on in to into this that these those the it one ones following next text sentence line message phrase string word words list`)
	// plainly matches the beginning of a text that can only ask for the same with something else.
	plainly = regexp.MustCompile(`(?i)^(?:(?:and|or|also|then|so|now|but|ok|okay|please|well)\b[\s,]*)*(?:(?:what|how) about|(?:do |show )?(?:the )?same)\b`)
)

// more handles a request for the same with other material, "and of: one two three" after "count the words: to be or not to be": the new material
// replaces all of the old one. It returns nil when the text is no such request, and when that is ambiguous: then m.unsure has the unambiguous forms.
func (m *matcher) more(history []prompt.Turn, text string) []piece {
	i := lastTurn(history, len(history))
	if i < max(0, len(history)-maxBack) || len(text) > llm.MaxTask {
		return nil
	}
	content, marked, sure := another(text)
	if content == "" || !marked && len(content) > maxRead || anew.MatchString(text) || operation.MatchString(content) && !signed.MatchString(content) || onThat.MatchString(content) {
		return nil
	}
	tasks := tasksOf(&history[i])
	for _, before := range tasks {
		at := m.find(before.Agent)
		instruction, is := m.materialOf(history, i, &before)
		if at < 0 || !is {
			continue
		}
		end := contentAt(before.Text)
		switch {
		case !marked && (end > 0 || len(tasks) > 1 || m.others(content, at)): // ambiguous: it may be an instruction, or for another agent
		case !sure:
			m.unsure = instruction + ": " + content
		case end > 0 && end+len(content) < llm.MaxTask:
			return []piece{m.goesOn(at, before, before.Text[:end+1]+" "+content)}
		case end == 0 && len(content) <= llm.MaxTask:
			return []piece{m.goesOn(at, before, content)}
		}
		return nil
	}
	return nil
}

// lastTurn returns the index of the last turn with tasks before another one; -1 when there is none.
func lastTurn(history []prompt.Turn, before int) int {
	for i := before - 1; i >= 0; i-- {
		if len(tasksOf(&history[i])) > 0 {
			return i
		}
	}
	return -1
}

// another returns the other material that a text names; "" when it names none. marked says that the material follows a colon or is quoted, and sure
// that this is unambiguous.
func another(text string) (content string, marked, sure bool) {
	rest, opened := opening(text)
	opener := strings.TrimSpace(text[:len(text)-len(rest)])
	head, behind, colon := strings.Cut(rest, ":")
	switch {
	case opened && strings.HasSuffix(opener, ":"):
		return tidy(rest), true, true
	case colon && strings.TrimSpace(behind) != "" && ofThis.all(strings.Fields(strings.ToLower(head))):
		return tidy(behind), true, true
	case !opened:
		return "", false, false
	}
	word, behind := nextWord(rest)
	of := strings.EqualFold(word, "of") || strings.EqualFold(word, "for") || strings.EqualFold(word, "with")
	if of {
		rest = behind
	}
	bare := strings.TrimRight(rest, "?!. ")
	if bare == "" {
		return "", false, false
	}
	if quotedAt(bare) == len(bare) {
		return bare, true, true
	}
	word, _ = nextWord(bare)
	word = strings.ToLower(word)
	if !of && (places[word] || aims[word] || questions[word] || requests[word] || quantity.MatchString(bare) || day.FindString(bare) == bare) {
		return "", false, false // it may be a question about some work, not material
	}
	return bare, false, of || plainly.MatchString(text)
}

// materialOf reports whether a task's material was given by the user after a colon, in this turn or an earlier one, and returns the instruction for
// it.
func (m *matcher) materialOf(history []prompt.Turn, i int, t *prompt.Task) (instruction string, is bool) {
	said := strings.TrimSpace(history[i].User)
	content, _, goesOn := another(said)
	if at := lastQuoted(said); at != nil && said[at[0]:at[1]] == t.Text && !goesOn {
		return strings.TrimSpace(said[:at[0]]), true
	}
	if at := paragraphAt(said); at != nil && !goesOn && strings.TrimSpace(said[at[1]:]) == t.Text {
		return strings.TrimSpace(said[:at[0]]), true
	}
	if agent := m.find(t.Agent); agent >= 0 && !goesOn {
		if at := m.instructionAt(said, agent); at > 0 && strings.TrimRight(strings.TrimSpace(said[at:]), "? ") == strings.TrimRight(t.Text, "? ") {
			return strings.TrimSpace(said[:at]), true
		}
	}
	if at := contentAt(said); at > 0 && !goesOn {
		return strings.TrimSpace(said[:at]), strings.HasSuffix(t.Text, tidy(said[at+1:]))
	}
	if i = lastTurn(history, i); i < 0 {
		return "", false
	}
	for _, before := range tasksOf(&history[i]) {
		if before.Agent != t.Agent {
			continue
		}
		if !goesOn { // then it has the same material: the request was repeated, or asks for something else with it
			content = strings.TrimSpace(strings.TrimPrefix(before.Text[contentAt(before.Text):], ":"))
		}
		if strings.HasSuffix(t.Text, content) {
			return m.materialOf(history, i, &before)
		}
	}
	return "", false
}

// tasksOf returns the tasks of a turn, the latest first.
func tasksOf(t *prompt.Turn) []prompt.Task {
	var tasks []prompt.Task
	for _, s := range t.Steps {
		tasks = append(tasks, s.Tasks...)
	}
	slices.Reverse(tasks)
	return tasks
}
