package fake

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	maxOnline  = 10 // agents named in an answer
	maxExample = 60 // bytes of an example in one
)

// online lists the agents that can be asked.
func online(t *llm.Turn) string {
	agents := t.Agents
	if len(agents)+t.More == 0 {
		return "No agent is online. Start one in another terminal, for example: `cortex agent echo`"
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
			if all := examplesOf(a.Card, 1); all != "" {
				b.WriteString(", as in " + all)
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

// examplesOf returns the first examples of a card that are short, at most n, in quotes; "" when it has none.
func examplesOf(card *a2a.AgentCard, n int) string {
	var all []string
	for i := range card.Skills {
		for _, example := range card.Skills[i].Examples {
			if len(all) < n && example != "" && len(example) <= maxExample {
				all = append(all, strconv.Quote(prompt.Clean(example, maxExample)))
			}
		}
	}
	return strings.Join(all, " or ")
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
		"For a language model start with `--llm …`; `cortex llm list` names them."
	// notUnderstoodEither is the answer directly behind it, and notUnderstoodAgain a later one.
	notUnderstoodEither = "I did not understand this either: offline, I only know the words of the agents named above."
	notUnderstoodAgain  = "I did not understand this: offline, I only know English and the agents' words; `--llm …` has a language model decide. " + namesThem
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

// about says what an agent does, and how it is asked.
func about(a *prompt.Agent) string {
	if a.Card == nil {
		return a.ID + "."
	}
	say := a.ID + ": " + strings.TrimRight(prompt.Clean(a.Card.Description, 100), ".") + "."
	if all := examplesOf(a.Card, 2); all != "" {
		say += " It takes what is like " + all + "."
	}
	return say
}

// near says how the built-in agent is asked whose work a request is about that it cannot read.
func (m *matcher) near(t *llm.Turn) string {
	say := "By words alone, the nearest to this is " + about(&m.agents[m.find(m.nearest)])
	if slices.ContainsFunc(t.History, func(h prompt.Turn) bool { return strings.Contains(h.Answer, "--llm …") }) {
		return say
	}
	return say + "\nFor a language model start with `--llm …`, as in `cortex chat --llm openai`."
}

// Read only: words of what people say of this program.
var (
	ofModels  = set(`model models llm llms gpt chatgpt openai claude anthropic gemini ollama ai`)
	ofNetwork = set(`key keys offline online internet network cloud cost costs free pay price account login`)
	ofData    = set(`data store stores stored save saves saved keep keeps kept log logs logged private privacy secret send sends sent collect collects track history remember`)
	ofAdding  = set(`add adding make making create creating write writing build building connect connecting join joins joining register install set start run deploy plug own new`)
	ofTongues = set(`english german french italian spanish portuguese dutch chinese japanese language languages`)
	beginning = set(`use start started begin try`) // what a newcomer asks how to do
	ofItself  = set(`you your yours yourself cortex program tool app chat`)
)

// didHow matches a question about what led to the last answer.
var didHow = regexp.MustCompile(`^(?:what did you (?:just )?do|how (?:did you (?:do|get|know|find)|do you know)(?: (?:it|that|this|to (?:it|that|this)))?)(?: (?:just )?(?:now|there))?$`)

// aside answers a short text that no agent can read, if it is about this program or only polite; nil for anything else.
func (m *matcher) aside(t *llm.Turn) *llm.Decision {
	q := remark{words: plainWords(skipWords(t.User, polite)), all: plainWords(t.User)}
	q.itself = speaksOfItself(q.words)
	if q.itself && len(q.words) < 12 && (q.begins("why") || didHow.MatchString(strings.Join(q.words, " "))) {
		return respond(howToWhy, "asked why")
	}
	for word := range strings.FieldsSeq(head(t.User)[:min(len(t.User), 200)]) {
		if at := m.find(strings.TrimFunc(word, unicode.IsPunct)); at >= 0 {
			return respond(about(&m.agents[at]), "asked about an agent")
		}
	}
	if len(q.words) == 0 || len(q.all) == 0 || len(q.all) > 12 || contentAt(t.User) > 0 {
		return nil
	}
	for _, a := range asides {
		if a.fits(&q) {
			return a.answer(t)
		}
	}
	if q.itself && len(q.words) < 9 && !q.has("this") && m.nearest == "" {
		return respond(aboutMe, "asked about Cortex itself")
	}
	return nil
}

// remark is a short text that no agent can read.
type remark struct {
	words, all []string // without what is polite at its beginning, and with it
	itself     bool     // it is about this program
}

func (q *remark) has(any ...string) bool    { return setOf(any).some(q.words) }
func (q *remark) begins(any ...string) bool { return slices.Contains(any, q.words[0]) }
func (q *remark) asks() bool                { return questions[q.words[0]] || requests[q.words[0]] }
func (q *remark) ofTalks() bool {
	return q.has("conversation", "conversations", "chat", "chats", "history")
}

// asides are the answers to remarks. The first that fits is given.
var asides = []struct {
	fits   func(q *remark) bool
	answer func(*llm.Turn) *llm.Decision
}{
	{func(q *remark) bool { return q.has("bye", "goodbye", "gotta") }, with("Goodbye.", "a farewell")},
	{func(q *remark) bool { return thanking.some(q.words) }, with("You are welcome.", "thanks")},
	{func(q *remark) bool {
		return q.has("agents", "agent") && (ofAdding.some(q.words) || len(q.words) < 5 && q.begins("what"))
	}, with(howToAdd, "asked how agents are added")},
	{func(q *remark) bool { return q.has("agents") }, func(t *llm.Turn) *llm.Decision {
		return respond(hello+"\n"+online(t), "asked about the agents")
	}},
	{func(q *remark) bool {
		return (q.itself || q.has("i") || q.begins("is")) && q.has("browser", "website", "gui", "interface", "ui", "dashboard", "console")
	}, with(howToBrowse, "asked for the console")},
	{func(q *remark) bool {
		return (q.begins("how") || len(q.words) < 6) && q.has("delete", "erase", "clear") && q.ofTalks()
	}, with(howToDelete, "asked how a conversation is deleted")},
	{func(q *remark) bool {
		return (q.begins("how") || len(q.words) < 6) && q.has("export", "save", "download") && q.has("conversation", "chat", "history")
	}, with(howToExport, "asked how a conversation is exported")},
	{func(q *remark) bool {
		return (q.begins("how") && q.has("i") || q.begins("show", "list")) && q.has("task", "tasks")
	}, with(howToList, "asked for the tasks")},
	{func(q *remark) bool {
		return len(q.words) < 8 && q.begins("where") && q.has("docs", "documentation", "manual", "guide", "readme") || len(q.words) < 6 && q.has("commands")
	}, with(howToRead, "asked for the documentation")},
	{func(q *remark) bool {
		return q.asks() && (q.has("i", "my") || q.begins("show") && len(q.words) < 4) && q.ofTalks()
	}, with(howToSee, "asked for the conversations")},
	{func(q *remark) bool {
		return (q.itself || q.has("my") && questions[q.words[0]]) && ofData.some(q.words)
	}, with(whatIsKept, "asked what is kept")},
	{func(q *remark) bool {
		return ofModels.some(q.words) || (q.itself || q.has("i")) && ofNetwork.some(q.words)
	}, with(howToModel, "asked how a model is chosen")},
	{func(q *remark) bool {
		return len(q.words) < 8 && leaving.some(q.words) && (len(q.words) < 3 || q.has("how") || q.begins("i") || q.itself && leaving[q.words[0]])
	}, with(howToLeave, "asked how to leave")},
	{func(q *remark) bool { return q.itself && q.has("speak", "understand") && ofTongues.some(q.words) }, with(onlyEnglish, "asked which languages are understood")},
	{func(q *remark) bool {
		return q.has("should") && q.has("i") && q.has("try", "start") || (q.itself || q.has("i")) && q.has("example", "examples") || len(q.words) < 4 && q.has("help") || q.all[0] == "what" && q.has("can") && q.has("do")
	}, introduction},
	{func(q *remark) bool { return slices.Contains(hellos, q.all[0]) }, func(t *llm.Turn) *llm.Decision {
		return respond(greeting(t), "a greeting")
	}},
}

// with returns a function that answers with a text.
func with(text, reason string) func(*llm.Turn) *llm.Decision {
	return func(*llm.Turn) *llm.Decision { return respond(text, reason) }
}

// speaksOfItself reports whether words are about this program.
func speaksOfItself(words []string) bool {
	return ofItself.some(words) || slices.Contains(words, "this") && len(words) < 8
}

// asksForModel reports whether words ask which model decides here, or how there is another one.
func asksForModel(words []string) bool {
	return len(words) > 0 && (questions[words[0]] || requests[words[0]]) && (speaksOfItself(words) || slices.Contains(words, "i")) && ofModels.some(words)
}

var hellos = []string{"hi", "hello", "hey", "hiya", "howdy", "heya", "yo", "greetings"}

// greeting is the answer to a greeting. It names who is online once.
func greeting(t *llm.Turn) string {
	if len(t.Agents) > 0 && listed(t, "") {
		return hello
	}
	return hello + "\n" + online(t)
}

const (
	howToAdd    = "An agent is a card and a program, and joins while I run: `cortex agent new NAME` writes both, and says how to start it."
	howToModel  = "I decide offline, by words, without a model; that needs no key and costs nothing. For one, start with `--llm …`, as in `cortex chat --llm openai`; `cortex llm list` names the models and what each one needs."
	howToLeave  = "In a chat, Ctrl-D or `/quit` leaves, and Ctrl-C stops what is running."
	howToWhy    = "In the chat, `/why` says how the last answer came about."
	howToBrowse = "`cortex console` opens the console in your browser; a chat says its address at its start."
	howToDelete = "`cortex conversations` lists them, and `cortex conversations delete NAME` deletes one for good."
	howToExport = "In a chat, `/export FILE.md` writes the conversation to a file; elsewhere, `cortex conversations history ID` shows it."
	howToSee    = "`cortex conversations` lists them, and `cortex conversations history ID` shows one; in a chat, `/conversations` does, and `/resume ID` goes on with one."
	howToList   = "In a chat, `/tasks` lists what agents are working on, and `/cancel` stops it; elsewhere, `cortex tasks` lists it."
	howToRead   = "In a chat, `/help` lists the commands; elsewhere, `cortex help` names those of the program. Its source has README.md and the folder docs."
	onlyEnglish = "Deciding offline, by words, I know English only; with `--llm …` a language model decides, which knows many languages."
	aboutMe     = "I am Cortex: I give work to agents, and decide offline, by words. " + namesThem + " For more, `--llm …` has a language model decide."
	whatIsKept  = "What is said is kept in the folder of this Cortex, which `cortex doctor` names. Deciding offline, I send it to nobody but the agents that get the work."
)

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

// introduction answers who asks for help or about Cortex, and greetings. It names who is online once, and again only when it is asked for.
func introduction(t *llm.Turn) *llm.Decision {
	words := plainWords(t.User)
	switch {
	case asksForModel(words):
		return respond(howToModel, "asked how a model is chosen")
	case slices.Contains(words, "help"), !asksWho(words) && slices.Contains(words, "i") && beginning.some(words):
		return respond("Say what you want, and an agent does it; in the chat, `/help` lists the commands.\n"+online(t), "asked for help")
	case slices.Contains(words, "need"):
		return respond(howToModel, "asked what it needs")
	case asksWho(words):
		return respond(hello+"\n"+online(t), "asked who is online")
	}
	return respond(greeting(t), "asked about Cortex itself")
}
