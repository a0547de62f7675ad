package conversation

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Words that became replies later. Logs from before read them as something else, and go on to: an entry says how its message is read, see
// [Conversation.Hear].
var (
	laterYes   = []string{"yep", "yeah", "yup", "sure", "yes sure", "of course", "yes of course"}
	laterNo    = []string{"nope", "nah", "no way", "never mind", "nevermind", "better not", "please don't"}
	againWords = []string{
		"what", "what is that", "what's that", "what is this", "what's this", "what do you mean", "what does that mean", "why", "who", "how", "when",
		"where", "which", "which one", "huh", "hm", "hmm", "um", "uh", "eh", "er", "wait", "maybe", "perhaps", "not sure", "i'm not sure",
		"i am not sure", "i don't know", "i do not know", "don't know", "no idea", "pardon", "sorry", "really", "are you sure", "excuse me", "explain",
		"please explain", "come again", "say again", "again", "repeat", "yes or no",
	}
)

// How a message is read that answers an open question, where that is more than the first words above tell.
const (
	heardYes   = "yes"
	heardNo    = "no"
	heardAgain = "again" // it is neither: the question is asked again
)

// Hear returns how a message that is about to be added to the log is read as a reply: for the Heard of its entry. It is empty when nothing is
// asked, and when the words tell alone.
func (c *Conversation) Hear(e *transport.Event) string {
	m, ok := transport.Request(e)
	if !ok {
		return ""
	}
	if asked, _ := c.question(e.From); asked == nil {
		return ""
	}
	word := wordOf(wordsOf(m.Parts))
	bare := strings.TrimRight(word, questionMarks)
	switch {
	case slices.Contains(laterYes, word):
		return heardYes
	case slices.Contains(laterNo, word):
		return heardNo
	case word == "": // a long one
	case bare == "", slices.Contains(againWords, bare):
		return heardAgain
	case bare != word && slices.Contains(slices.Concat(yesWords, laterYes, noWords, laterNo), bare): // "ok?"
		return heardAgain
	}
	return ""
}

// questionMarks end a text that is no yes.
const questionMarks = "?¿？؟"
