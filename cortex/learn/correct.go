package learn

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// corrections are how people begin a message that says that the answer before was not what they wanted.
var corrections = func() (all [][]string) {
	for phrase := range strings.SplitSeq("no, nope, wrong, incorrect, not that, not what, that is not, that isn't, thats not, that's not, that is wrong, "+
		"that's wrong, this is wrong, this is not, this isn't, i meant, i mean, i didn't, i did not, you misunderstood, bad answer, "+
		"ask someone else, nein, falsch, non, nicht, je voulais, quise decir, incorrecto", ",") {
		all = append(all, strings.Fields(phrase))
	}
	return all
}()

// longestCorrection is how many words the longest of corrections has, or one and the word behind it.
const longestCorrection = 3

// corrects reports whether a message says that the answer before it was not what was wanted.
func corrects(text string) bool {
	words := plainWords(text, longestCorrection)
	for _, c := range corrections {
		if len(words) < len(c) || !slices.Equal(words[:len(c)], c) {
			continue
		}
		if len(c) == 1 && len(words) > 1 && followsOn(words[1]) { // "no problem, …" praises
			continue
		}
		return true
	}
	return false
}

func followsOn(word string) bool {
	return slices.Contains([]string{"problem", "worries", "rush", "hurry", "need", "thanks", "thank"}, word)
}

// maxAlike is how many words of a message are compared.
const maxAlike = 64

// askedElsewhere reports whether a user asked much the same again as in the turn before, and other agents did it now: the first ones
// were not the right ones.
func askedElsewhere(before *conversation.Turn, text string, now []prompt.Task) bool {
	if before.Past == nil || len(now) == 0 {
		return false
	}
	then := completed(before)
	if len(then) == 0 {
		return false
	}
	for _, t := range then {
		if slices.ContainsFunc(now, func(n prompt.Task) bool { return n.Agent == t.Agent }) {
			return false
		}
	}
	return alike(plainWords(before.User, maxAlike), plainWords(text, maxAlike))
}

// alike reports whether two messages share at least two thirds of the words of the shorter one, and at least three.
func alike(a, b []string) bool {
	if len(b) < len(a) {
		a, b = b, a
	}
	shared := 0
	for _, w := range a {
		if slices.Contains(b, w) {
			shared++
		}
	}
	return shared >= 3 && 3*shared >= 2*len(a)
}

// plainWords returns the first words of a text in lower case.
func plainWords(text string, most int) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(text[:min(len(text), 4<<10)], func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	}) {
		if words = append(words, strings.ToLower(word)); len(words) == most {
			break
		}
	}
	return words
}

// turnBefore returns the turn of the same asker that was answered last before turn began; nil when the window has none.
func turnBefore(c *conversation.Conversation, turn *conversation.Turn) *conversation.Turn {
	var last *conversation.Turn
	answered := uint64(0)
	for _, t := range slices.Backward(c.Turns) { // the first that fits is nearly always the last one
		if t.AnswerSeq > answered && t != turn && !t.Open() && t.From == turn.From && !t.Answered.After(turn.Began) {
			last, answered = t, t.AnswerSeq
		}
	}
	return last
}
