package learn

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// corrections are beginnings of messages that say that the previous answer was wrong.
var corrections = func() (all [][]string) {
	for phrase := range strings.SplitSeq("no, nope, wrong, incorrect, not that, not what, that is not, that isn't, thats not, that's not, that is wrong, "+
		"that's wrong, this is wrong, this is not, this isn't, i meant, i mean, i didn't, i did not, you misunderstood, bad answer, "+
		"ask someone else, nein, falsch, non, nicht, je voulais, quise decir, incorrecto", ",") {
		all = append(all, strings.Fields(phrase))
	}
	return all
}()

// longestCorrection is the number of words to examine: the length of the longest correction, or of a shorter one and the next word.
const longestCorrection = 3

// corrects reports whether a message says that the previous answer was wrong.
func corrects(text string) bool {
	words := plainWords(text, longestCorrection)
	for _, c := range corrections {
		if len(words) < len(c) || !slices.Equal(words[:len(c)], c) {
			continue
		}
		if len(c) == 1 && len(words) > 1 && followsOn(words[1]) { // "no problem, …" is no correction
			continue
		}
		return true
	}
	return false
}

func followsOn(word string) bool {
	return slices.Contains([]string{"problem", "worries", "rush", "hurry", "need", "thanks", "thank"}, word)
}

// maxAlike bounds the words of a message that are compared.
const maxAlike = 64

// askedElsewhere reports whether a user has made nearly the same request as in the turn before, and other agents did it now. That suggests that the
// first agents were wrong.
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

// plainWords returns the first words of a text, in lower case.
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

// turnBefore returns the last turn of the same sender that was answered before turn began; nil when the window has none.
func turnBefore(c *conversation.Conversation, turn *conversation.Turn) *conversation.Turn {
	var last *conversation.Turn
	answered := uint64(0)
	for _, t := range slices.Backward(c.Turns) { // nearly always the last one
		if t.AnswerSeq > answered && t != turn && !t.Open() && t.From == turn.From && !t.Answered.After(turn.Began) {
			last, answered = t, t.AnswerSeq
		}
	}
	return last
}
