package conversation

import (
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Words that became replies later. Older logs read them differently and must go on to do so, which is why an entry says how its message is
// read, see [Conversation.hear].
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

// How a message is read as a reply to an open question, where yesWords and noWords do not say.
const (
	heardYes   = "yes"
	heardNo    = "no"
	heardAgain = "again" // neither: the question is asked again
)

// hear returns how a new message is read as a reply, for the Heard of its entry. It is empty when no question is open, and when yesWords
// and noWords are enough.
func (c *Conversation) hear(e *transport.Event) string {
	m, ok := transport.Request(e)
	if !ok {
		return ""
	}
	if asked, _ := c.question(e.From); asked == nil {
		return ""
	}
	word := replyWord(wordsOf(m.Parts))
	bare := strings.TrimRight(word, questionMarks)
	switch {
	case slices.Contains(laterYes, word):
		return heardYes
	case slices.Contains(laterNo, word):
		return heardNo
	case word == "": // longer than any reply
	case bare == "", slices.Contains(againWords, bare):
		return heardAgain
	case bare != word && isReply(bare): // "ok?"
		return heardAgain
	}
	return ""
}

// isReply reports whether a word, see [replyWord], is a yes or a no.
func isReply(word string) bool {
	return slices.Contains(slices.Concat(yesWords, laterYes, noWords, laterNo), word)
}

// questionMarks turn a yes before them into something else.
const questionMarks = "?¿？؟"
