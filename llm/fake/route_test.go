package fake_test

import (
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// decide decides t twice, and checks what holds for every decision.
func decide(t *testing.T, tn *llm.Turn) *llm.Decision {
	t.Helper()
	d, err := fake.New(nil).Decide(t.Context(), tn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := llm.Check(tn, d); err != nil {
		t.Errorf("%.200q: %v\n%+v", tn.User, err, d)
	}
	if d.Model != "fake" || d.Reason == "" {
		t.Errorf("%.200q: model %q, reason %q, want both", tn.User, d.Model, d.Reason)
	}
	again, err := fake.New(nil).Decide(t.Context(), tn, nil)
	if diff := cmp.Diff(d, again); err != nil || diff != "" {
		t.Errorf("%.200q decided again: %v (-first +second):\n%s", tn.User, err, diff)
	}
	return d
}

// routed formats a decision as "agent/skill: task" lines, or returns the first line of its text.
func routed(d *llm.Decision) string {
	if d.Kind != llm.KindDelegate {
		say, _, _ := strings.Cut(d.Say, "\n")
		return string(d.Kind) + " " + say
	}
	var lines []string
	for _, x := range d.Delegations {
		lines = append(lines, x.Agent+"/"+x.Skill+": "+x.Task)
	}
	return strings.Join(lines, "\n")
}

const none = "refuse I did not understand this: deciding offline, I only know English and the agents' words."

const nearCalc = "refuse By words alone, the nearest to this is agent_calc: Does arithmetic and converts units. It takes what is like \"what is 17 * 23?\" or \"calculate (3 + 4) / 2\"."

func TestRoute(t *testing.T) {
	const about = "respond Hello! I am Cortex. I give work to agents and bring you what they answer."
	const what = "clarify What is agent_echo to do? Say it behind the name, as in @agent_echo …"
	for _, c := range []struct{ user, want string }{
		// One agent.
		{"Echo this!", "agent_echo/echo: Echo this!"},
		{"echo hello world, how are you my old friend", "agent_echo/echo: hello world, how are you my old friend"},
		{"repeat after me: I am a fish", "agent_echo/echo: I am a fish"},
		{"echo it is back", "agent_echo/echo: it is back"},
		{"repeat it once more", "agent_echo/echo: repeat it once more"},
		{"echo 42", "agent_echo/echo: 42"},
		{"echo !", "agent_echo/echo: !"},
		{"Repeat: it", "agent_echo/echo: it"},
		{"please echo that again", "agent_echo/echo: please echo that again"},
		{"@agent_echo echo hello", "agent_echo/echo: echo hello"},
		{"Repeat what I say", "agent_echo/echo: Repeat what I say"},
		{"please repeat after me", "agent_echo/echo: please repeat after me"},
		{`echo "count the words"`, `agent_echo/echo: "count the words"`},
		{"what time is it in Tokyo?", "agent_clock/time: what time is it in Tokyo?"},
		{"what time is it in Paris", "agent_clock/time: what time is it in Paris"},
		{"is it crowded in Tokyo?", none},
		{"was it noisy in Paris", none},
		{"is it the same time in Tokyo?", "agent_clock/time: is it the same time in Tokyo?"},
		{"What's the time?", "agent_clock/time: What's the time?"},
		{"which day is it today", "agent_clock/time: which day is it today"},
		{"what is the date today", "agent_clock/time: what is the date today"},
		{"tell me the date and time in Tokyo", "agent_clock/time: tell me the date and time in Tokyo"},
		{"what is 17*23?", "agent_calc/calc: what is 17*23?"},
		{"17 * 23", "agent_calc/calc: 17 * 23"},
		{"(1+2)*3 - 4", "agent_calc/calc: (1+2)*3 - 4"},
		{"how much is 12 divided by 4", "agent_calc/calc: how much is 12 divided by 4"},
		{"what is 20% of 50?", "agent_calc/calc: what is 20% of 50?"},
		{"What's 2 plus 2?", "agent_calc/calc: What's 2 plus 2?"},
		{"5 times 3", "agent_calc/calc: 5 times 3"},
		{"can you compute 12 / 4 for me", "agent_calc/calc: can you compute 12 / 4 for me"},
		{"convert 42 km to miles", "agent_calc/convert: convert 42 km to miles"},
		{"72 F in C", "agent_calc/convert: 72 F in C"},
		{"convert 5 pounds to kg please", "agent_calc/convert: convert 5 pounds to kg please"},
		{"will it rain in Berlin tomorrow?", "agent_weather/forecast: will it rain in Berlin tomorrow?"},
		{"weather in Rome", "agent_weather/forecast: weather in Rome"},
		{"send a mail to Bob that I am late", "agent_mail/send: send a mail to Bob that I am late"},
		{"do I have new mail?", "agent_mail/inbox: do I have new mail?"},
		{"remind me to buy bread at 17:23", "agent_notes/notes: remind me to buy bread at 17:23"},
		{"research the history of NATS", "ResearchAgent/research: research the history of NATS"},
		{"how many words are in \"to be or not to be\"", "wordcount/: \"to be or not to be\""},

		// Inflected forms.
		{"echoed words are nice", "agent_echo/echo: echoed words are nice"},
		{"calculated sum of everything", nearCalc},

		// An instruction and its material.
		{"count the words: to be or not to be", "wordcount/: to be or not to be"},
		{"Please count the words of the following sentence:\nto be or\nnot to be", "wordcount/: to be or\nnot to be"},
		{"can you count words: a; b. What time is it? c", "wordcount/: a; b. What time is it? c"},
		{"echo this: count the words", "agent_echo/echo: count the words"},
		{"Repeat: at 10:30, see https://example.org/a: b", "agent_echo/echo: at 10:30, see https://example.org/a: b"},
		{"convert to miles: 10 km", "agent_calc/convert: convert to miles: 10 km"},
		{"what is the time in these cities: Tokyo, Paris", "agent_clock/time: what is the time in these cities: Tokyo, Paris"},
		{"echo https://example.org:80/x", "agent_echo/echo: https://example.org:80/x"},
		{"calculate 10: 2", nearCalc},
		{"what is the weather: Paris or London?", "agent_weather/forecast: what is the weather: Paris or London?"},
		{"count the words: I was there, and how was Tokyo?", "wordcount/: I was there, and how was Tokyo?"},
		{"echo this: one, and repeat two", "agent_echo/echo: one, and repeat two"},
		{"translate to French: hello, what time is it?", none},

		// Several requests.
		{"what time is it in Tokyo, and what is 17*23?", "agent_clock/time: what time is it in Tokyo\nagent_calc/calc: what is 17*23?"},
		{"what is 17*23 and what time is it in Tokyo", "agent_calc/calc: what is 17*23\nagent_clock/time: what time is it in Tokyo"},
		{"what is 2+2 and what is 3+3?", "agent_calc/calc: what is 2+2\nagent_calc/calc: what is 3+3?"},
		{"Echo hello. What is 3*4? Will it rain in Oslo?", "agent_echo/echo: hello.\nagent_calc/calc: What is 3*4?\nagent_weather/forecast: Will it rain in Oslo?"},
		{"echo one; convert 3 km to miles; list my notes", "agent_echo/echo: one\nagent_calc/convert: convert 3 km to miles\nagent_notes/notes: list my notes"},
		{"what time is it in Rome?\n- and then count the words: a b c", "agent_clock/time: what time is it in Rome?\nwordcount/: a b c"},
		{"1. what time is it in Rome?\n2. convert 5 km to miles", "agent_clock/time: what time is it in Rome?\nagent_calc/convert: convert 5 km to miles"},
		{"echo hi and then convert 5 km to miles", "agent_echo/echo: hi\nagent_calc/convert: convert 5 km to miles"},
		{"count the words: to be or not to be, and what is 17*23?", "wordcount/: to be or not to be\nagent_calc/calc: what is 17*23?"},
		{"what time is it in Tokyo, and count the words: a b c", "agent_clock/time: what time is it in Tokyo\nwordcount/: a b c"},
		{"Two questions: what time is it in Tokyo, and what is 17*23?", "agent_clock/time: what time is it in Tokyo\nagent_calc/calc: what is 17*23?"},
		{"Hello! What is 17*23? Thanks!", "agent_calc/calc: What is 17*23?"},
		{"I am in Rome. Will it rain tomorrow?", "agent_weather/forecast: I am in Rome. Will it rain tomorrow?"},
		{"what time is it in Tokyo, and why is that so?", "agent_clock/time: what time is it in Tokyo"},
		{"what is the time in New York and the weather in Paris?", "agent_clock/time: what is the time in New York\nagent_weather/forecast: the weather in Paris?"},
		{"what is the date and the time in Tokyo?", "agent_clock/time: what is the date and the time in Tokyo?"},
		{`echo "what time is it, and what is 17*23?"`, `agent_echo/echo: echo "what time is it, and what is 17*23?"`},
		{"echo salt, pepper and time", "agent_echo/echo: salt, pepper and time"},
		{"echo a\n\nwhat a, does this... is it so?", "agent_echo/echo: a\n\nwhat a, does this... is it so?"},
		{"what time is it in Tokyo and in Paris?", "agent_clock/time: what time is it in Tokyo and in Paris?"},

		// By name.
		{"@agent_echo hello", "agent_echo/echo: hello"},
		{"@agent_echo ,", what},
		{"@echo", what},
		{"  @AGENT_ECHO/echo \n", what},
		{"agent_echo:", what},
		{"please ask the echo agent to", what},
		{"@agent_echo: @wordcount", "agent_echo/echo: @wordcount"},
		{"@agent_echo what is 17*23?", "agent_echo/echo: what is 17*23?"},
		{"@AGENT_ECHO, hello, and what is 17*23?", "agent_echo/echo: hello, and what is 17*23?"},
		{"@echo: hello", "agent_echo/echo: hello"},
		{"agent_echo: hello", "agent_echo/echo: hello"},
		{"agent_echo:what is 17*23?", "agent_echo/echo: what is 17*23?"},
		{"agent_echo: hello, and what is 17*23?", "agent_echo/echo: hello, and what is 17*23?"},
		{"ask agent_echo to say 17*23", "agent_echo/echo: say 17*23"},
		{"please ask the echo agent for 17*23", "agent_echo/echo: 17*23"},
		{"use the calculator to compute 17*23", "agent_calc/calc: compute 17*23"},
		{"have agent_clock tell me 2+2", "agent_clock/time: tell me 2+2"},
		{"@agent_echo a and @wordcount b c", "agent_echo/echo: a\nwordcount/: b c"},
		{"@wordcount count the words: a b", "wordcount/: a b"},
		{"@nobody hello", `refuse No agent "nobody" is online.`},
		{"use the translator to translate good morning", `refuse No agent "translator" is online.`},
		{"ask agent_sql to count the words", `refuse No agent "agent_sql" is online.`},
		{"what is 17*23, and ask the translator agent to translate it", `refuse No agent "translator agent" is online.`},

		// Nothing fits.
		{"who wrote the book about Tokyo?", none},
		{"book a flight to Tokyo", none},
		{"tell me a joke", none},
		{"that's John's book, isn't it", none},
		{`spell "convert 10 km to miles"`, none},
		{"what is the capital of France?", none},
		{"summarize the message from Bob", none},
		{"summarize the message", none},
		{"translate hello world into French", none},
		{"42", none},
		{"???", none},
		{"", none},

		// About Cortex.
		{"hello", about},
		{"Hi there!", about},
		{"what can you do", about},
		{"hello, what can you do?", about},
		{"Who are you?", about},
		{"help", "respond Say what you want, and an agent does it; in the chat, `/help` lists the commands."},
		{"which agents are online?", about},
	} {
		if got := routed(decide(t, turn(c.user))); got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.user, got, c.want)
		}
	}
}

// FuzzDecide checks that for any message and card there is a valid decision.
func FuzzDecide(f *testing.F) {
	f.Add("what time is it in Tokyo, and count the words: a b", "Counts: \"x\" 1+2")
	f.Add("and in\u00a0Paris?", "time\u00a0in\u00a0Tokyo\u00a0now = 3")
	f.Add("wethér 20 km thére", "weather in 10 km = 7")
	f.Add("@agent_echo: \"hi\n- 2. and then ask the x agent to", "agent_x")
	f.Fuzz(func(t *testing.T, user, card string) {
		tn := turn(user)
		x := agent("x", card, a2a.AgentSkill{Name: card, Examples: []string{card, user}})
		x.Card.Name = card
		tn.Agents = append(tn.Agents, x)
		decide(t, tn)
		tn.Waiting = []prompt.Task{{ID: "t", Agent: "x"}}
		decide(t, tn)
		tn.Waiting = nil
		tn.History = []prompt.Turn{{User: card, Steps: []prompt.Step{{Tasks: []prompt.Task{{ID: "t", Agent: "x", Text: card, Result: card}}}}}}
		decide(t, tn)
	})
}
