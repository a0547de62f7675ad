package fake

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const maxOnline = 10 // agents named in an answer

// online lists the agents that can be asked.
func online(t *llm.Turn) string {
	agents := t.Agents
	if len(agents)+t.More == 0 {
		return "No agent is online. Start one in another terminal, for example: cortex agent echo"
	}
	if n := len(agents) + t.More; t.More > 0 { // the agents shown are close to the request, but not close enough
		return fmt.Sprintf("%d agents are online: `cortex agents --text WORD` finds those that speak of something.", n)
	}
	var b strings.Builder
	b.WriteString("Online are:")
	for i := range agents[:min(len(agents), maxOnline)] {
		a := &agents[i]
		b.WriteString("\n- " + a.ID)
		if a.Card != nil {
			if about := prompt.Clean(a.Card.Description, 100); about != "" {
				b.WriteString(": " + about)
			}
		}
		if !a.Seen {
			b.WriteString(" (not running)")
		}
	}
	if more := len(agents) - maxOnline; more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// listed reports whether an earlier answer that began with the same words has named all who are online.
func listed(t *llm.Turn, begin string) bool {
	list := online(t)
	return slices.ContainsFunc(t.History, func(h prompt.Turn) bool {
		return strings.HasPrefix(h.Answer, begin) && strings.Contains(h.Answer, list)
	})
}

const (
	// notUnderstood begins the answer to a request that shares no words with any card.
	notUnderstood = "I did not understand this: deciding offline, I only know English and the agents' words.\n" +
		"For a language model start with --llm …; `cortex llm list` names them."
	// notUnderstoodEither is the answer directly behind it, and notUnderstoodAgain a later one.
	notUnderstoodEither = "I did not understand this either: offline, I only know the words of the agents named above."
	notUnderstoodAgain  = "I did not understand this: offline, I only know English and the agents' words; --llm … has a language model decide. " + namesThem
	namesThem           = "\"what can you do?\" names the agents."
)

// puzzled says that the request was not understood, how to have a language model if that was not said before, and likewise who is online.
func puzzled(t *llm.Turn) string {
	i := len(t.History) - 1
	for i >= 0 && t.History[i].Answer == notUnderstoodEither {
		i--
	}
	list := online(t)
	switch {
	case i >= 0 && strings.HasPrefix(t.History[i].Answer, notUnderstood) && strings.Contains(t.History[i].Answer, list):
		return notUnderstoodEither
	case listed(t, "") && slices.ContainsFunc(t.History, func(h prompt.Turn) bool { return strings.HasPrefix(h.Answer, notUnderstood) }):
		return notUnderstoodAgain
	case listed(t, ""):
		return notUnderstood + "\n" + namesThem
	}
	return notUnderstood + "\n" + list
}

// present matches a question about an agent's presence, and finds its name.
var present = regexp.MustCompile(`(?i)^(?:is|are) (?:the )?@?(\S+)(?: agent)? (?:still |now |currently )*(?:online|there|up|here|available|running|present)(?: now)?[?.! ]*$`)

// whether answers the question whether an agent is online; "" for any other text, and for names that no agent has.
func (m *matcher) whether(text string) string {
	found := present.FindStringSubmatch(strings.TrimSpace(head(text)))
	if found == nil {
		return ""
	}
	at := m.named(found[1])
	if at < 0 {
		return ""
	}
	a := &m.agents[at]
	about := ""
	if a.Card != nil {
		about = prompt.Clean(a.Card.Description, 100)
	}
	if about != "" {
		about = ": " + about
	}
	if !a.Seen {
		return a.ID + " does not run" + about
	}
	return a.ID + " is online" + about
}

const hello = "Hello! I am Cortex. I give work to agents and bring you what they answer."

// ofModels are words of questions about Cortex that are about models.
var ofModels = set(`key offline internet`)

// introduction answers who asks for help or about Cortex, and greetings. It names who is online once, and again only when it is asked for.
func introduction(t *llm.Turn) *llm.Decision {
	words := plainWords(t.User)
	switch {
	case slices.Contains(words, "help"):
		return respond("Say what you want, and an agent does it; in the chat, /help lists the commands.\n"+online(t), "asked for help")
	case addsAgent.MatchString(phraseAbout(words)):
		return respond("An agent is a card and a program, and joins while I run: cortex agent new NAME writes both, and says how to start it.", "asked how agents are added")
	case slices.Contains(words, "model") || slices.Contains(words, "llm") || slices.ContainsFunc(words, func(w string) bool { return ofModels[w] }) || whichModel.MatchString(phraseAbout(words)):
		return respond("I decide offline, by words, without a model. For one, start with --llm …, as in cortex chat --llm openai; cortex llm list names the models and what each one needs.", "asked how a model is chosen")
	case slices.ContainsFunc(words, func(w string) bool { return leaving[w] }):
		return respond("In a chat, Ctrl-D or /quit leaves, and Ctrl-C stops what is running.", "asked how to leave")
	case !asksWho(words) && len(t.Agents) > 0 && listed(t, ""):
		return respond(hello, "asked about Cortex itself")
	}
	return respond(hello+"\n"+online(t), "asked about Cortex itself")
}
