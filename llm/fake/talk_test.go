package fake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	builtin "github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/calc"
	"github.com/cortex-orchestrator/cortex/agents/clock"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// staff returns the built-in agents and two more.
func staff(t *testing.T) []prompt.Agent {
	t.Helper()
	var list []prompt.Agent
	for _, name := range builtin.Builtin() {
		card, _, ok := builtin.Lookup(name)
		if !ok {
			t.Fatalf("no agent %s", name)
		}
		list = append(list, prompt.Agent{ID: card.Name, Seen: true, Card: card})
	}
	return append(list,
		agent("wordcount", "Counts the words of a text", a2a.AgentSkill{ID: "count", Name: "Count words", Examples: []string{"count the words: to be or not to be"}}),
		agent("translator", "Translates texts into other languages", a2a.AgentSkill{ID: "translate", Name: "Translate", Examples: []string{"translate to Italian: good morning"}}),
		agent("notes", "Keeps notes and reminders", a2a.AgentSkill{
			ID: "notes", Name: "Notes", Description: "Saves, lists and finds notes", Tags: []string{"notes", "todo", "reminder"},
			Examples: []string{"note that it's mom's birthday", "remind me to call mom", "list my notes"},
		}),
		prompt.Agent{ID: "sleeper", Card: &a2a.AgentCard{
			Name: "sleeper", Description: "A general assistant that answers any question, tells what day it is, and does what you want",
		}},
		agent("weather", "Weather forecasts for any place", a2a.AgentSkill{
			ID: "forecast", Name: "Forecast", Description: "The weather today and in the next days", Tags: []string{"weather", "rain", "temperature"},
			Examples: []string{"what is the weather in Paris?", "will it rain tomorrow in London?"},
		}))
}

// work executes a task as its agent would.
func work(t *testing.T, d *llm.Delegation) prompt.Task {
	t.Helper()
	task := prompt.Task{ID: a2a.TaskID(d.ID), Agent: d.Agent, Skill: d.Skill, Text: d.Task, State: a2a.TaskStateCompleted, Result: "done: " + d.Task}
	var err error
	switch d.Agent {
	case "agent_calc":
		task.Result, err = calc.Answer(d.Task)
	case "agent_clock":
		task.Result, err = clock.Answer(d.Task, time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	case "wordcount":
		task.Result = fmt.Sprint(len(strings.Fields(d.Task)))
	case "agent_echo":
		task.Result = "Echo: " + d.Task
	}
	if err != nil {
		task.State, task.Result = a2a.TaskStateFailed, err.Error()
	}
	return task
}

// TestWaitingAsleep checks that an agent that has asked a question and is gone gets the replies, except those that are clearly for another agent.
func TestWaitingAsleep(t *testing.T) {
	for _, c := range []struct{ say, want string }{
		{"the blue one", "sleeper"}, {"Berlin", "sleeper"}, {"what time is it in Tokyo?", "agent_clock"}, {"echo hello", "agent_echo"},
	} {
		tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8, User: c.say}}
		tn.Waiting = []prompt.Task{{ID: "1", Agent: "sleeper", Text: "do it", State: a2a.TaskStateInputRequired, Result: "Which one?"}}
		if d := decide(t, tn); len(d.Delegations) != 1 || d.Delegations[0].Agent != c.want {
			t.Errorf("%q goes to %+v, want %s", c.say, d.Delegations, c.want)
		}
	}
}

// TestTalk checks conversations: each message with the beginning of its answer or, after @, the agent and its task.
func TestTalk(t *testing.T) {
	type said struct{ say, want string }
	const (
		lost   = "I did not understand this"
		unsure = "I am not sure what is to be done with this. If it is the same as before, say it in full: "
	)
	words := said{"count the words: to be or not to be", "6"}
	tokyo := said{"what time is it in Tokyo?", "Tokyo (Asia/Tokyo): 16:08:09"}
	rain := said{"will it rain in London tomorrow?", "@weather: will it rain in London tomorrow?"}
	for i, talk := range [][]said{
		// Continuations of a question.
		{tokyo, {"and in Paris?", "Paris (Europe/Paris): 09:08:09"}, {"and London?", "London (Europe/London): 08:08:09"}, {"in New York", "New York (America/New_York): 03:08:09"}},
		{tokyo, {"what about Rome?", "Rome (Europe/Rome)"}, {"And the date?", "@agent_clock: the date in Rome?"}, {"ok and in Oslo", "@agent_clock: the date in Oslo?"}, {"and the date here?", "UTC:"}, {"thanks!", "You are welcome."}},
		{tokyo, {"how about in Sydney", "Sydney (Australia/Sydney)"}, {"thank you very much!", "You are welcome."}, {"and in Berlin?", "Berlin (Europe/Berlin)"}},
		// Another place stands for all that were named together.
		{
			{"time in Berlin and Munich", "Berlin (Europe/Berlin): 09:08:09 on Wednesday, 6 May 2026, UTC+02:00\nMunich"},
			{"Delhi and in Mumbai", "@agent_clock: time in Delhi and in Mumbai"},
			{"Mumbai and Chennai", "@agent_clock: time in Mumbai and Chennai"},
			{"Mumbai, Chennai and London", "@agent_clock: time in Mumbai, Chennai and London"},
			{"will it rain there?", "@weather: will it rain in Mumbai, Chennai and London?"},
		},
		{{"will it rain in New York, in Rome or in Oslo tomorrow?", "@weather"}, {"and in Paris?", "@weather: will it rain in Paris tomorrow?"}},
		{tokyo, {"and paris?", "Paris (Europe/Paris)"}, {"again", "Paris (Europe/Paris)"}, {"the same for Lisbon", "Lisbon (Europe/Lisbon)"}},
		{tokyo, {"will it rain there?", "@weather: will it rain in Tokyo?"}, {"and in Oslo?", "@weather: will it rain in Oslo?"}},
		{tokyo, {"and the weather?", "@weather: the weather?"}},
		{tokyo, {"and what is 2+2?", "2+2 = 4"}, {"Berlin?", "Berlin (Europe/Berlin)"}},
		{tokyo, {"and in Mordor?", `agent_clock could not do it: I know no place called "Mordor"`}, {"try again", "agent_clock could not do it"}},
		{rain, {"and in Paris?", "@weather: will it rain in Paris tomorrow?"}, {"and on Friday?", "@weather: will it rain in Paris on Friday?"}, {"what about today?", "@weather: will it rain in Paris today?"}},
		{{"what is the weather in Rome", "@weather"}, {"tomorrow?", "@weather: what is the weather in Rome tomorrow"}},
		{{"17*23", "17*23 = 391"}, {"and 3*4?", "3*4 = 12"}, {"times 2", "12 times 2 = 24"}, {"divided by 5", "24 divided by 5 = 4.8"}},
		{{"what is 17*23?", "17*23 = 391"}, {"plus 9", "391 plus 9 = 400"}, {"half of that", "half of 400 = 200"}, {"20% of it", "20% of 200 = 40"}},
		{{"2+2", "2+2 = 4"}, {"* 10", "4 * 10 = 40"}, {"-5", "40 -5 = 35"}, {"divide that by 7", "35 / 7 = 5"}},
		// A sign that is glued to a number makes that negative, unless nothing else follows: a number alone asks for nothing, so "-5" takes away.
		{{"-40 C in F", "-40 C = -40 F"}, {"-5 + 7", "-5 + 7 = 2"}, {"−5*2", "−5*2 = -10"}, {"-5%", "-10 -5% = -9.5"}, {"- 5 + 7", "-9.5 - 5 + 7 = -7.5"}},
		{{"0.1+0.2", "0.1+0.2 = 0.3"}, {"-40 C in F", "-40 C = -40 F"}, {"and -10 C?", "-10 C = 14 F"}, {"-5", "-5 C = 23 F"}},
		{{"2*3", "2*3 = 6"}, {"-5 + 7", "-5 + 7 = 2"}, {"+5 - 1", "+5 - 1 = 4"}, {"+ 2", "4 + 2 = 6"}, {"-5, please", "6 -5 = 1"}, {"-5 apples", lost}},
		{{"-5", lost}, {"-5%", lost}},
		{{"convert 10 km to miles", "10 km ≈ 6.2"}, {"and 20 km?", "20 km ≈ 12.4"}, {"what about 5", "5 km ≈ 3.1"}, {"in feet?", "5 km ≈ 16404"}},
		{{"what time is it in Tokyo, and what is 17*23?", "agent_clock: Tokyo"}, {"and in Paris?", "Paris (Europe/Paris)"}, {"tell me a joke", lost}, {"times 2", "391 times 2 = 782"}},
		{{"17*23", "17*23 = 391"}, {"and in Bergen?", lost}},
		{{"convert 10 km to miles", "10 km"}, {"to be or not to be", lost}},
		{tokyo, {"times 2", lost}},
		{{"what is the weather?", "@weather"}, {"in Bergen", "@weather: what is the weather in Bergen?"}},
		{{"how much is 12% of 80", "12% of 80 = 9.6"}, {"and 10 km in miles?", "10 km ≈ 6.2"}},
		{{"echo hello", "Echo: hello"}, {"again please", "Echo: hello"}, {"once more!", "Echo: hello"}},
		{{"remind me to call Bob", "@notes: remind me to call Bob"}, {"and list my notes", "@notes: list my notes"}},
		{{"@agent_echo what time is it in Rome", "Echo: what time is it in Rome"}, {"and in Paris?", "Echo: what time is it in Paris"}},
		// The same with other material, which replaces the old completely.
		{words, {"and of: one two three", "3"}, {"and of: four", "1"}, {"again", "1"}, {"what about four five", "2"}, {"and: six seven", "2"}},
		{words, {"and of one two three", "3"}, {"the same for: one two", "2"}, {"same with one two three four", "4"}, {"of this one: one two", "2"}},
		{words, {`and of "one two"`, "2"}, {`and "three"?`, "1"}, {`what about "one two three"?`, "3"}},
		{words, {"and of: what time is it in Rome", "6"}, {"what time is it in Rome?", "Rome (Europe/Rome)"}, {"and of: one two", lost}},
		{words, {"and one two three?", unsure + "count the words: one two three"}, {"and of: one two three", "3"}},
		{words, {"now in French", lost}, {"and 3?", lost}, {"in Bergen", lost}, {"and to go?", lost}, {"and on Monday?", "11 May 2026 is a Monday"}, {"and how?", lost}},
		{words, {"times 2", "6 times 2 = 12"}},
		{words, {"what about the weather?", "@weather: the weather?"}},
		{words, {"and what is 2+2?", "2+2 = 4"}},
		{words, {"and of: " + strings.Repeat("word ", 200), "200"}},
		{{"what time is it in Tokyo, and count the words: a in b", "agent_clock: Tokyo"}, {"same for Paris", "Paris (Europe/Paris)"}},
		{{"what time is it in Tokyo, and count the words: a in b", "agent_clock: Tokyo"}, {"and of: d e", "2"}, {"and in Bergen?", "Bergen (Europe/Oslo)"}},
		{{"how many words are in this: hello there world", "3"}, {"and in this: one two", "2"}},
		{{`count the words of "the quick brown fox"`, "4"}, {`and "hello"?`, "1"}, {"and of: one two", "2"}},
		{{"count the words of to be or not to be", "@wordcount: to be or not to be"}, {"and of: one two three", "3"}},
		{{`count the words of "to be in Rome"`, "@wordcount"}, {`and of "in Paris"?`, `@wordcount: "in Paris"`}, {"and in Bergen?", lost}},
		{
			{"translate to French: good morning", "@translator"},
			{"and to German?", "@translator: translate to German: good morning"},
			{"and: good night in Rome", "@translator: translate to German: good night in Rome"},
			{"now in Spanish", "@translator: translate in Spanish: good night in Rome"},
			{"and in Paris?", "@translator: translate in Paris: good night in Rome"},
		},
		{{`translate "in the night" into French`, "@translator"}, {"and German?", `@translator: translate "in the night" into German`}, {`and "to be"`, `@translator: translate "to be" into German`}},
		{{"how much is 12% of 80", "12% of 80 = 9.6"}, {"and of 90?", "12% of 90 = 10.8"}},
		{{"remind me to be there", "@notes"}, {"and of: one two three", lost}, {"and Alice?", lost}},
		{tokyo, {"and in: Paris?", "Paris (Europe/Paris)"}, {"and of: one two three", lost}},
		// Material without a colon, and an instruction without any.
		{{"count words to be or not to be", "6"}, {"how many words are in to be or not to be?", "6"}, {"please count the words to be", "2"}, {"again", "2"}},
		{{"word count of hello big world", "3"}, {"count the number of words in the quick brown fox", "4"}, {"and of: one two", "2"}},
		{{"how many words has this sentence", "6"}, {"count the words that are in a b", "2"}},
		{{"count the words", "wordcount needs a text for this. Say it behind a colon: count the words: …"}, {"how many words?", "wordcount needs a text"}},
		{{"translate to Italian good night", "@translator: translate to Italian good night"}, {"what is the weather in Rome", "@weather: what is the weather in Rome"}},
		{{"Could you please tell me what 3 * (4+5) is and the time in Kyoto? thx", "@agent_calc: Could you please tell me what 3 * (4+5) is@agent_clock: the time in Kyoto"}},
		{tokyo, {"count the words: a b", "2"}, {"and in Paris?", "Paris (Europe/Paris)"}, {"17*23", "17*23 = 391"}, {"and in New York?", "New York (America/New_York)"}},
		{tokyo, {"never mind", "All right."}, {"count the words: a b", "2"}, {"in Bergen", lost}},
		// What stands behind the result, or in the place of something, in other words.
		{{"add 5 and 7", "5 + 7 = 12"}, {"then multiply by 3", "12 multiply by 3 = 36"}, {"no, by 4", "12 multiply by 4 = 48"}, {"subtract 8", "48 subtract 8 = 40"}, {"add 5 and 7", "5 + 7 = 12"}},
		{{"10 / 4", "10 / 4 = 2.5"}, {"no, by 5", "10 / 5 = 2"}, {"sorry, no, I meant 3*4", "3*4 = 12"}},
		{{"what time is it in Berlin", "Berlin"}, {"no, I meant London", "London (Europe/London)"}, {"wait, by 3", lost}},
		{{"what time is it in Rome and echo hi", "agent_clock: Rome"}, {"tomorrow?", "Rome (Europe/Rome), tomorrow"}},
		{{"what time is it in Rome and echo hi", "agent_clock: Rome"}, {"echo hi", "Echo: hi"}, {"tomorrow?", "@agent_clock: tomorrow?"}},
		// A calculation is one in words, too, and goes on behind "then".
		{{"what is 3 + 4 and then times 5", "(3 + 4) times 5 = 35"}},
		{
			{
				"what time is it in Rome, what is 3 + 4, then times 5, then minus 2, and echo hi",
				"@agent_clock: what time is it in Rome@agent_calc: what is 3 + 4, then times 5, then minus 2@agent_echo: hi",
			},
			{"what is 3 + 4 and then what time is it in Rome", "agent_calc: 3 + 4 = 7\nagent_clock: Rome"},
			{"what is 2+2 and 3+3", "agent_calc: 2+2 = 4\nagent_calc: 3+3 = 6"},
		},
		{{"what is seven times eight", "seven times eight = 56"}, {"what is three times four?", "three times four = 12"}, {"two plus two", "two plus two = 4"}},
		{{"12 lbs in kg", "12 lbs = 5.4"}, {"70 kg in pounds", "70 kg ≈ 154.3"}, {"how many kg are 12 lbs?", "12 lbs = 5.4"}, {"50 mph in km/h", "50 mph = 80.4"}},
		{{"17x23", "17x23 = 391"}, {"sum of 3, 4 and 5", "sum(3, 4, 5) = 12"}, {"1e400 * 10", "1e400 * 10 = 1000"}, {"2026-11-20", lost}},
		{{"is it friday?", "UTC:"}, {"is it friday in Tokyo?", "Tokyo"}},
		{{"time on mars", `agent_clock could not do it: I know no place called "mars"`}},
		{{"wat tiem is it in berlin", "Berlin (Europe/Berlin)"}},
		// What is understood is done, and what is not is said.
		{
			{"what is today's date, and what is the population of mars?", "UTC: 07:08:09 on Wednesday, 6 May 2026\nI did not understand \"what is the population of mars?\"."},
			{"what is 2+2 and what is the meaning of life?", "2+2 = 4\nI did not understand \"what is the meaning of life?\"."},
			{"what is the meaning of life, and what is 2+2?", "2+2 = 4\nI did not understand \"what is the meaning of life\"."},
			{"What is love? What time is it in Rome? Who is Bob?", "Rome (Europe/Rome): 09:08:09 on Wednesday, 6 May 2026, UTC+02:00\nI did not understand \"What is love?\" and \"Who is Bob?\"."},
			{"what time is it in tokyo and what is it in berlin?", "Tokyo (Asia/Tokyo): 16:08:09 on Wednesday, 6 May 2026, UTC+09:00\nBerlin"},
			{"echo what is this, and what is the meaning of life", "@agent_echo: echo what is this, and what is the meaning of life"},
			{"what time is it in Rome, and why is that so?", "Rome (Europe/Rome): 09:08:09 on Wednesday, 6 May 2026, UTC+02:00\nI did not understand \"why is that so?\"."},
		},
		// The last part is taken back.
		{
			{"10 km in miles, no wait, 10 m in feet", "10 m ≈ 32.8"},
			{"what time is it in Berlin, no wait, in Paris", "Paris (Europe/Paris)"},
			{"what is 2+2 and what time is it in Rome, sorry, I meant Oslo", "@agent_calc: what is 2+2@agent_clock: what time is it in Oslo"},
			{"echo I waited, no wait, I left", "@agent_echo: I waited, no wait, I left"},
			{"count the words: a b, no wait, what is 2+2", "7"},
			{"how many km are 5 miles, no, I meant 6", "6 miles = 9.6"},
			{"100 km in m, cm and mm?", "100 km = 100000 m\n100 km = 10000000 cm\n100 km = 100000000 mm"},
			{"no wait, no wait, no wait", lost},
		},
		{{"how many pounds are 5 kg?", "5 kg ≈ 11.0"}, {"and in ounces?", "5 kg ≈ 176."}, {"and 6 kg?", "6 kg ≈ 211."}},
		{{"how much is 18% of 250", "18% of 250 = 45"}, {"and 20%?", "20% of 250 = 50"}, {"what about 7 percent", "7 percent of 250 = 17.5"}},
		{{"days between 1 March 2026 and 15 April 2026", "1 March 2026"}},
		{{"which model are you using?", "I decide offline, by words, without a model; that needs no key and costs nothing. For one, start with `--llm"}},
		{{"24 plus 10", "24 plus 10 = 34"}, {"no, I meant 20%", "24 plus 20% = 28.8"}, {"no, 30", "24 plus 30 = 54"}, {"and 7?", lost}},
		{{"waht tiem is it in Berln", "Berlin (Europe/Berlin): 09:08:09 on Wednesday, 6 May 2026, UTC+02:00\nI took \"Berln\" for Berlin."}, {"and in Rome", "Rome (Europe/Rome)"}},
		{{"how many days until christmas?", "25 December "}, {"and until 5 May", "5 May "}},
		{{"what day of the week was 14 July 1789?", "14 July 1789 was a Tuesday, "}},
		// Material behind a blank line, as it comes from a pipe, or in single quotes; a unit is no place.
		{{"count the words\n\nthe sky is blue", "4"}, {"and of: one two", "2"}, {"Count the words!\r\n\r\nwhat time is it: now\n\nand in Rome", "8"}},
		{{"how many words are in this?\n\nthe sky is blue", "4"}, {"how many words?\n\n" + strings.Repeat("word ", 3000), "3000"}, {"weather in Rome\n\nand in Oslo", "@weather: weather in Rome\n\nand in Oslo"}},
		{{"how many words are in 'the quick brown fox'?", "4"}, {"now in kilometres", lost}, {"how many words are in 'it isn't so'?", "3"}, {"and ‘not to be’", "3"}},
		{{"what is the weather in Rome", "@weather"}, {"in Celsius?", "@weather: what is the weather in Rome in Celsius"}, {"is it John's or James' rain in Oslo", "@weather: is it John's or James' rain in Oslo"}},
		{{"count teh words: one two three", "3"}, {"count the wrods: one two", "2"}, {"count teh words one two", "2"}},
		{{"how many words does 'a rose is a rose' have?", "5"}, {`how many words does "to be" contain?`, "2"}, {"and 'one'?", "1"}},
		{{"is it morning in Sydney?", "Sydney (Australia/Sydney)"}, {"is it already late in Rome", "Rome (Europe/Rome)"}, {"is it crowded in Rome?", lost}},
		{{"what's 15% tip on 84.50?", "15% tip on 84.50 = 12.675"}, {"convert 100 usd to eur", `agent_calc could not do it: I know no exchange rates, and so nothing of "usd"`}},
		{{"1/3 + 1/6", "1/3 + 1/6 = 0.5"}, {"divide 100 by 7 and round it", "round(100 / 7) = 14"}, {"please add up 12, 15 and 20", "sum(12, 15, 20) = 47"}},
		{{"stop", "In a chat, Ctrl-C stops"}, {"please cancel everything", "In a chat, Ctrl-C stops"}, {"stop that now!", "In a chat"}, {"stop the music", lost}},
		{{"what should I ask?", "Hello! I am Cortex."}, {"what's up?", "Hello! I am Cortex."}, {"How's it going?", "Hello! I am Cortex."}, {"can you help me?", "Say what you want"}},
		// A number with a mark is a calculation, and a place behind something else is one of the clock's.
		{{"20!", "factorial(20) = 2432902008176640000"}, {"what is 5!", "factorial(5) = 120"}, {"add 5 to that", "5 + 120 = 125"}, {"subtract 100 from it", "125 - 100 = 25"}, {"5", lost}},
		{tokyo, {"count the words: a b", "2"}, {"what about Mumbai?", "Mumbai (Asia/Kolkata)"}, {"and Lagos?", "Lagos (Africa/Lagos)"}},
		{rain, {"count the words: a b", "2"}, {"and Mumbai?", "@weather: will it rain in Mumbai tomorrow?"}},
		{words, {"what about Mumbai?", "1"}},
		{{"what is 5 plus 5? and times 3?", "(5 plus 5) times 3 = 30"}, {"3 squared", "3 squared = 9"}, {"split 90 between 4 people", "90 / 4 = 22.5"}},
		// Who is new, and what people ask of the tool.
		{{"hello, I am new here", "Hello! I am Cortex."}, {"what are you able to do for me?", "Hello! I am Cortex. I give work to agents and bring you what they answer.\nOnline are:"}},
		{{"how do I add my own agent", "An agent is a card"}, {"I'd like to create a new agent please", "An agent is a card"}, {"how to write agents?", "An agent is a card"}, {"add an agent to my notes", "@notes"}},
		{{"is this thing using openai?", "I decide offline"}, {"Do you use an LLM?", "I decide offline"}, {"are you using my notes", "@notes"}},
		{tokyo, {"that's wrong", "Then say it in other words"}, {"No, that is not what I meant!", "Then say"}, {"no, I meant Rome", "Rome (Europe/Rome)"}},
		{{"how can I connect my own agent to this?", "An agent is a card"}, {"can I use python for an agent?", lost}, {"what language model is behind this?", "I decide offline"}},
		{{"what can you help me with?", "Say what you want"}, {"a", lost}, {"okay", "All right."}},
		{{"what are your capabilities", "Hello! I am Cortex."}, {"I don't understand", "Hello! I am Cortex."}, {"do you need an API key?", "I decide offline"}, {"exit please", "In a chat, Ctrl-D"}},
		{{"how do I write an agent in Python?", "An agent is a card"}, {"many thanks", "You are welcome."}, {"many apples", lost}, {"are you chatgpt", "I decide offline"}},
		{tokyo, {"no I meant Perth", "Perth (Australia/Perth)"}, {"sorry I meant Rome", "Rome (Europe/Rome)"}},
		{{"what are agents?", "An agent is a card"}, {"do I need an internet connection?", "I decide offline"}, {"how can I switch to ollama?", "I decide offline"}, {"use my notes", "@notes"}},
		{{"much appreciated", "You are welcome."}, {"you're the best!", "You are welcome."}, {"Plese tell me how many grams are 2 pounds", "2 pounds = 907.18474 grams"}},
		{{"Is it possible to convert 20 degrees celsius in fahrenheit?", "20 degrees celsius = 68 fahrenheit"}},
		{{"what is this program?", "Hello! I am Cortex."}, {"how do I get started?", "Say what you want, and an agent does it"}, {"list your agents please", "Hello! I am Cortex. I give work to agents and bring you what they answer.\nOnline are:"}},
		{{"which AI model are you running on?", "I decide offline"}, {"can I add agents while you run?", "An agent is a card"}, {"thank you kindly", "You are welcome."}},
		{{"how many days are left in this year?", "31 December 2026 is a Thursday"}, {"I have need to convert 5 miles in kilometers", "5 miles = 8.04672 kilometers"}},
		{{"how do I install a new agent?", "An agent is a card"}, {"can an agent send a new mail?", "An agent is a card"}, {"which agents can I use?", "Hello! I am Cortex."}, {"forget it", "All right."}, {"cheers mate", "You are welcome."}},
		// What the echo says, and what it does not.
		{{"say hello world", "Echo: hello world"}, {"please say: good night, Bob", "Echo: good night, Bob"}, {"say it in Italian", "@translator"}, {"say something", lost}, {"say nothing to Bob", lost}, {"say sorry in a letter", "Echo: sorry in a letter"}},
		{{"What hour is it in Brazil?", "Brazil (America/Sao_Paulo)"}, {"Please, you can say me the hour of Madrid?", "Madrid (Europe/Madrid)"}},
		{{"what is 20% off 80", "20% off 80 = 64"}, {"and off 50?", "20% off 50 = 40"}, {"and 10%?", "10% off 50 = 45"}},
		{tokyo, {"no, I meant Paris, Texas", "Paris, Texas (America/Chicago)"}},
		{{"say hello", "Hello! I am Cortex."}, {"what week is it?", "UTC: 07:08:09 on Wednesday, 6 May 2026, week 19"}},
		{{"what's 5 miles in km", "5 miles = 8.0"}, {"6!", "factorial(6) = 720"}, {"20 is what percent of 80", "20 / 80 = 25 %"}, {"round 3.14159 to 2 decimals", "round(3.14159, 2) = 3.14"}},
		{{"what year is it", "UTC"}, {"which month is it in Tokyo?", "Tokyo"}, {"repeat that", "Tokyo"}},
		{{"no thanks", "All right."}, {"no, thank you", "All right."}, {"no", "There is nothing"}, {"cool, thanks", "You are welcome."}},
		// An agent with a grammar gets only what it can read, and a question about its work says how it is asked.
		{{"can you do math?", "By words alone, the nearest to this is agent_calc: Does exact arithmetic and converts units. It takes what is like \"What is 17*23?\" or"}, {"calc", "By words alone"}},
		{{"what time does the store open in Rome?", "By words alone, the nearest to this is agent_clock"}, {"good times", "By words alone"}, {"how many days until summer", "By words alone"}},
		{{"can you repeat what I said?", "By words alone, the nearest to this is agent_echo"}, {"tell me about agent_calc", "agent_calc: Does exact"}, {"what does agent_echo do?", "agent_echo: A simple"}},
		{{"call me at 555-1234", "By words alone"}, {"page 3/4", lost}, {"is 91 divisible by 7", "91 / 7 = 13"}, {"what is 4 more than 9", "9 + 4 = 13"}, {"what is pi", "pi ≈ 3.14"}},
		{{"wats the tim in dubai", "Dubai (Asia/Dubai)"}, {"next Friday", "Dubai (Asia/Dubai): 8 May 2026 is a Friday"}, {"in 10 days", "16 May 2026 is a Saturday, in 10 days."}, {"is it already tomorrow in Auckland?", "Auckland (Pacific/Auckland): 19:08"}},
		{{"12 / 7", "12 / 7 ≈ 1.71"}, {"rounded to 1 decimal", "round(1.71428571429, 1) = 1.7"}},
		{{"12 / 7", "12 / 7 ≈ 1.71"}, {"no, / 4", "12 / 4 = 3"}, {"no, times 5", "12 times 5 = 60"}},
		// What is about this program is for no agent.
		{{"hi again", "Hello! I am Cortex."}, {"how do I change the language model", "I decide offline"}, {"do you store my data?", "What is said is kept"}, {"hey, nice to meet you", "Hello!"}},
		{{"do you know any songs?", "I am Cortex: I give work to agents, and decide offline, by words."}, {"pls help", "Say what you want"}, {"what kind of things can you do", "Hello! I am Cortex. I give work to agents and bring you what they answer.\nOnline are:"}},
		{{"what is your purpose", "I am Cortex"}, {"please help me " + strings.Repeat("you ", 30), lost}},
		{{"time in oslo, norway", "Oslo"}, {"how about rome, italy", "@agent_clock: time in rome, italy"}, {"and in Sydney, Australia", "@agent_clock: time in Sydney, Australia"}, {"was it yesterday there?", "Sydney (Australia/Sydney): 17:08"}},
		{{"what day of the week is July 4", "4 July 2026 is a Saturday"}, {"is that a weekend?", lost}, {"exit the chat please", "In a chat, Ctrl-D"}, {"what time is it in Rome & what is 3*4", "agent_clock: Rome (Europe/Rome): 09:08:09 on Wednesday, 6 May 2026, UTC+02:00\nagent_calc: 3*4 = 12"}},
		{{"what time is it and what's my name", "UTC: 07:08:09 on Wednesday, 6 May 2026\nI did not understand \"what's my name\"."}, {"no, in Madrid", "Madrid (Europe/Madrid)"}, {"wat is 8 tiems 7", "8 tiems 7 = 56"}},
		{{"echo hi", "Echo: hi"}, {"can you repeat that?", "Echo: hi"}, {"send an email to my boss", "I did not understand"}, {"show me the tasks", "In a chat, `/tasks`"}, {"how can I see my old conversations?", "`cortex conversations` lists them, and `cortex conversations history"}, {"17 * 23 and the time in Paris", "agent_calc: 17 * 23 = 391"}},
		{{"what is this exactly?", "Hello! I am Cortex."}, {"hmm thats wrong", "Then say it"}, {"you're wrong", "Then say it"}, {"repeat that 3 times", "By words alone"}, {"repeat the last thing", "By words alone"}, {"repeat the first verse", "Echo: the first verse"}, {"echo what Bob said", "Echo: echo what Bob said"}, {"cool. what can I ask you?", "Hello!"}, {"how many days in february", "By words alone"}, {"where is my data stored", "What is said is kept"}, {"what time do you close?", "By words alone"}, {"how do I close this", "In a chat, Ctrl-D"}},
		// An instruction before a colon that asks how many there are, and an agent by what it is.
		{{"how many words are in: the quick brown fox", "4"}, {"and in: to be", "2"}, {"ask the calculator what 3+4 is", "3+4 = 7"}, {"ask the neighbour what he does", lost}},
		{{"twelve times two", "twelve times two = 24"}, {"and times two?", "24 times two = 48"}, {"minus twenty-three", "48 minus twenty-three = 25"}, {"squared", "25 squared = 625"}, {"say hello three times", "Echo: hello three times"}},
		{{"2 to the power of 10", "2 to the power of 10 = 1024"}, {"hmm and 2 to the 12th", "2 ^ 12 = 4096"}, {"say that again", "2 ^ 12 = 4096"}},
		// What is asked of the last answer, and of the conversation.
		{{"wait, cancel that", "In a chat, Ctrl-C stops"}, {"no, stop", "In a chat, Ctrl-C stops"}, {"1+1", "1+1 = 2"}, {"what did you just do?", "In the chat, `/why` says"}, {"how did you get that", "In the chat, `/why` says"}, {"how do you do", "I am Cortex"}},
		{{"export this chat", "In a chat, `/export FILE.md` writes"}, {"how do I save a conversation?", "In a chat, `/export FILE.md` writes"}, {"save a note", "@notes"}},
		// What goes on with nothing.
		{{"and in Bergen?", lost}},
		{{"again", lost}},
		{{"times 2", lost}},
		{{"times two", lost}},
		{{"hello", "Hello! I am Cortex."}, {"thanks", "You are welcome."}, {"bye", "Goodbye."}},
		{{"thank you so much, that was great", "You are welcome."}, {"thanks for your help!", "You are welcome."}, {"awesome", "All right."}, {"thanks to Bob", "You are welcome."}},
		{{"Thanks, that was all for today.", "You are welcome."}, {"good night!", "Goodbye."}, {"ok good night", "Goodbye."}, {"I want to quit", "In a chat, Ctrl-D"}, {"that's all for now", "Goodbye."}, {"see you in Rome", "I am Cortex"}},
		{{"who made you?", "Hello! I am Cortex."}, {"are you an AI?", "I decide offline"}, {"who made the Eiffel Tower?", lost}},
		{{"what's your name?", "Hello! I am Cortex."}, {"are you there?", "Hello! I am Cortex."}, {"whats your name", "Hello!"}},
		{{"agents", "Hello! I am Cortex. I give work to agents and bring you what they answer.\nOnline are:"}, {"/agents", "Hello!"}},
		{{"is agent_clock online?", "agent_clock is online: Tells"}, {"is clock still running", "agent_clock is online"}, {"is the sleeper there?", "sleeper does not run"}, {"is bob online?", lost}},
		{{"please echo \"quoted text\"", "Echo: \"quoted text\""}, {"can you repeat three cheers", "Echo: three cheers"}},
		{tokyo, {"no wait, paris", "Paris (Europe/Paris)"}, {"oh no wait, in Rome", "Rome (Europe/Rome)"}, {"sorry no, Berlin", "Berlin (Europe/Berlin)"}},
		{{"what is 3+4, and what time is it in Rome", "agent_calc: 3+4 = 7"}, {"no wait, in Milan", "Milan (Europe/Rome)"}},
		// A question goes on for another agent behind a part that begins with none.
		{{
			"what is 5 plus 7 and 9 times 3 and the time in Oslo",
			"agent_calc: 5 plus 7 = 12\nagent_calc: 9 times 3 = 27\nagent_clock: Oslo (Europe/Oslo): 09:08:09",
		}},
		{tokyo, {"no, in Paris", "Paris (Europe/Paris)"}, {"I meant Rome", "Rome (Europe/Rome)"}, {"sorry, what is 1+2", "1+2 = 3"}, {"no", "There is nothing to say"}},
		{{"1+1", "1+1 = 2"}, {"no, 1+2", "1+2 = 3"}, {"why?", "In the chat, `/why`"}, {"why is it raining in Rome", "@weather"}},
		{{"help", "Say what you want, and an agent does it; in the chat, `/help` lists the commands.\nOnline are:"}},
		{{"how do I add an agent?", "An agent is a card and a program"}, {"add an agent", "An agent is a card"}, {"how do agents get married", "Hello!"}},
		{{"how do I change the model?", "I decide offline"}, {"how do I stop you?", "In a chat, Ctrl-D"}, {"quit chat", "In a chat, Ctrl-D"}},
		{{"what time is it?", "UTC:"}, {"what about Mumbai?", "Mumbai (Asia/Kolkata)"}, {"and Lagos", "Lagos (Africa/Lagos)"}},
		{{"how much is a third of 99", "a third of 99 = 33"}, {"one of them", lost}},
		{{"ok", "All right."}, {"yes", "There is nothing to say yes or no to."}, {"great, thanks", "You are welcome."}},
		// Typing errors and inflected forms.
		{{"wether in Rome", "@weather: weather in Rome"}},
		{{"show my remindres", "@notes: show my remindres"}},
		{{"repaet this", "Echo: repeat this"}},
		{{"calclate 2+2", "2+2 = 4"}},
		{{"convret 10 km to miles", "10 km ≈ 6.2"}},
		{{"What tme is it in Tokyo", "Tokyo"}},
		{{"reminders", "@notes: reminders"}},
		{{"calculating 2+2", "2+2 = 4"}},
		{{"forecasts for Oslo please", "@weather"}},
		{{"is it raining in Rome", "@weather: is it raining in Rome"}},
		{{"currnet time", "UTC"}},
		{{"noting that Bob owes me five", "@notes: noting that Bob owes me five"}},
		{{"evaluating 3*4 for me", "3*4 = 12"}},
		{{"echoing this", "Echo: echoing this"}},
		{{"converted to miles, 10 km", "@agent_calc"}},
		{{"who is Wether", lost}},
		{{"@agent_ech hello", `No agent "agent_ech" is online. Did you mean @agent_echo?`}},
		{{"@eco hello", `No agent "eco" is online. Did you mean @agent_echo?`}},
		{{"@nobody hello", "No agent \"nobody\" is online.\n"}},
		// An agent that does not run gets no insignificant requests.
		{{"answer me", lost}},
		{{"what day is it in Rome", "Rome (Europe/Rome)"}},
		{{"do something", lost}},
		{{"tell me a joke", lost}},
		{{"@sleeper hello", "@sleeper: hello"}, {"what time is it in Tokyo?", "Tokyo"}},
		{{"hmm ok", "All right."}, {"sorry!", "All right."}, {"ok never mind", "All right."}, {"well, yes", "There is nothing to say yes or no to."}},
		{{"do I need an account?", "I decide offline, by words, without a model"}, {"do you speak German?", "Deciding offline, by words, I know English only"}},
		{{"I just installed this, what should I try first?", "Say what you want, and an agent does it"}, {"how many weeks are left this year?", "31 December 2026 is a Thursday"}},
		{{"hwo much is 250 plus 375", "250 plus 375 = 625"}, {"split a bill of 84.50 between 3 people", "84.50 / 3 ≈ 28.1666666667"}},
		{{"hello cortex, how's your day", "Hello! I am Cortex."}, {"cool stuff! gotta go now", "Goodbye."}, {"ok, I have to go", "Goodbye."}},
		{{"echo testing testing", "Echo: testing testing"}, {"can you echo it in capitals", "By words alone, the nearest to this is agent_echo"}, {"echo it is raining", "Echo: it is raining"}},
		{{"is there a web interface?", "`cortex console` opens"}, {"can I use this in my browser?", "`cortex console` opens"}},
		{{"how do I use a real model?", "I decide offline, by words, without a model"}},
		{{"please say hello in caps", lost}, {"delete this conversation", "`cortex conversations` lists them"}, {"clear the chat", "`cortex conversations` lists them"}},
		{{"explain how agents join", "An agent is a card and a program"}, {"why did you pick agent_clock?", "In the chat, `/why` says"}},
		{{"how do I see the tasks that ran?", "In a chat, `/tasks` lists"}, {"where can I find the docs?", "In a chat, `/help` lists"}},
		{{"ok let's see... 12 + 30 / 6", "12 + 30 / 6 = 17"}, {"whats 3/4 as a decimal", "3/4 = 0.75"}},
		{{"what's this good for?", "Hello! I am Cortex."}, {"give me 3 examples of what I can ask", "Hello! I am Cortex."}, {"you are really helpful", "You are welcome."}},
		{{"how many days till Halloween", "31 October 2026 is a Saturday, in 178 days."}, {"what is 22/7 to 5 decimals", "round((22/7), 5) = 3.14286"}},
		{{"good morning", "Hello! I am Cortex."}, {"so how do I use this", "Say what you want, and an agent does it"}},
		{{"how do I delete this conversation", "`cortex conversations` lists them"}},
		{{"2+2", "2+2 = 4"}, {"thanks! and times 3?", "4 times 3 = 12"}, {":q", "In a chat, Ctrl-D"}, {"logout", "In a chat, Ctrl-D"}, {"what are the commands?", "In a chat, `/help` lists"}, {"show history", "`cortex conversations` lists them"}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8}}
			for _, s := range talk {
				tn.User, tn.Steps = s.say, nil
				d := decide(t, tn)
				got, asked := d.Say, ""
				if d.Kind == llm.KindDelegate {
					step := prompt.Step{}
					for i := range d.Delegations {
						asked += "@" + d.Delegations[i].Agent + ": " + d.Delegations[i].Task
						step.Tasks = append(step.Tasks, work(t, &d.Delegations[i]))
					}
					tn.Steps = []prompt.Step{step}
					answer, err := fake.New(nil).Decide(t.Context(), tn, nil)
					if err != nil {
						t.Fatal(err)
					}
					got = answer.Say
				}
				if strings.HasPrefix(s.want, "@") {
					got = asked
				}
				if !strings.HasPrefix(got, s.want) {
					t.Errorf("%q\n got %q, asked %q\nwant %q", s.say, got, asked, s.want)
				}
				tn.History = append(tn.History, prompt.Turn{User: s.say, Steps: tn.Steps, Answer: got})
			}
		})
	}
}

// TestListedOnce holds that who is online is said once, and again when it is others.
func TestListedOnce(t *testing.T) {
	tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8}}
	for i, c := range []struct {
		say, want string
		lines     int
	}{
		{"xyzzy", "I did not understand this:", 11},
		{"plugh", "I did not understand this either:", 1},
		{"fnord", "I did not understand this either:", 1},
		{"@nobody hello", "No agent \"nobody\" is online.", 10},
		{"@eco hello", "No agent \"eco\" is online. Did you mean @agent_echo?", 1},
		{"help", "Say what you want", 10},
		{"xyzzy", "I did not understand this: offline, I only know English and the agents' words; `--llm …` has a language model decide. \"what can you do?\"", 1},
		{"2+2", "", 1},
		{"xyzzy", "I did not understand this: offline", 1},
		{"who are you?", "Hello! I am Cortex.", 1},
		{"hi", "Hello! I am Cortex.", 1},
		{"what can you do?", "Hello! I am Cortex.", 10},
		{"which agents are online?", "Hello! I am Cortex.", 10},
		{"xyzzy", "I did not understand this: deciding offline", 10},
		{"plugh", "I did not understand this either:", 1},
		{"hello", "Hello! I am Cortex.", 1},
	} {
		if i == 13 {
			tn.Agents = tn.Agents[1:]
		}
		tn.User = c.say
		d := decide(t, tn)
		if n := strings.Count(d.Say, "\n") + 1; !strings.HasPrefix(d.Say, c.want) || n != c.lines {
			t.Errorf("%d: %q: %d lines, want %d:\n%s", i, c.say, n, c.lines, d.Say)
		}
		tn.History = append(tn.History, prompt.Turn{User: c.say, Answer: d.Say})
	}
}

// TestPuzzledAfterHello holds that the first answer to what is not understood says how to have a language model, though the agents were named before.
func TestPuzzledAfterHello(t *testing.T) {
	tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8, User: "hello"}}
	tn.History = append(tn.History, prompt.Turn{User: tn.User, Answer: decide(t, tn).Say})
	tn.User = "xyzzy"
	for _, want := range []string{
		"I did not understand this: deciding offline, I only know English and the agents' words.\nFor a language model start with `--llm …`; `cortex llm list` names them.\n\"what can you do?\" names the agents.",
		"I did not understand this: offline, I only know English and the agents' words; `--llm …` has a language model decide. \"what can you do?\" names the agents.",
	} {
		d := decide(t, tn)
		if d.Say != want {
			t.Errorf("it says %q, want %q", d.Say, want)
		}
		tn.History = append(tn.History, prompt.Turn{User: tn.User, Answer: d.Say})
	}
}

// TestMaterialOfManyTasks holds that what goes on is found quickly behind many turns of many tasks that go on with each other.
func TestMaterialOfManyTasks(t *testing.T) {
	tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8, User: "and of: one two"}}
	for range 60 {
		step := prompt.Step{}
		for range 8 {
			step.Tasks = append(step.Tasks, prompt.Task{Agent: "wordcount", Text: "to be or not to be", State: a2a.TaskStateCompleted, Result: "6"})
		}
		tn.History = append(tn.History, prompt.Turn{User: "again", Steps: []prompt.Step{step}})
	}
	if d := decide(t, tn); d.Kind != llm.KindRefuse { // no instruction was given
		t.Errorf("it is %s: %+v", d.Kind, d.Delegations)
	}
	tn.User, tn.History = strings.Repeat("“", 300_000), nil
	decide(t, tn)
}

// TestHostile holds that nothing that a stranger says takes a decision without an end.
func TestHostile(t *testing.T) {
	tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8}}
	for _, say := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("(", 10_000), strings.Repeat("9^", 4000) + "9", "1e999999999999 * 2", "-1e999999999999 in F",
		strings.Repeat("'", 1<<20), strings.Repeat(" 'a", 1<<18), strings.Repeat("2+2, no wait, ", 30), strings.Repeat("no wait, ", 50), "2+2" + strings.Repeat(", no wait", 50) + ", 3",
		"count the words\n\n" + strings.Repeat("a\n\n", 1<<18), strings.Repeat("what is love and ", 400), strings.Repeat("km, ", 2000), "-" + strings.Repeat("5", 1<<20),
	} {
		tn.User = say
		d := decide(t, tn)
		tn.History = append(tn.History, prompt.Turn{User: say, Answer: d.Say, Steps: []prompt.Step{{Tasks: []prompt.Task{
			{Agent: "agent_calc", Text: say, State: a2a.TaskStateCompleted, Result: "1 = 2"},
			{Agent: "wordcount", Text: say, State: a2a.TaskStateCompleted, Result: say},
		}}}})
	}
}

// TestWithFiles holds that a question about a file that comes along is not taken for one about Cortex, and that an instruction for a file needs no text.
func TestWithFiles(t *testing.T) {
	tn := &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: staff(t), MaxParallel: 8, Files: []prompt.File{{Key: "f1", Name: "notes.txt"}}}}
	tn.User = "what is this?"
	if d := decide(t, tn); d.Kind != llm.KindRefuse || !strings.HasPrefix(d.Say, "I did not understand this") {
		t.Errorf("%q with a file: %s %q, want that it is not understood", tn.User, d.Kind, d.Say)
	}
	tn.User = "hello"
	if d := decide(t, tn); d.Kind != llm.KindRespond || !strings.HasPrefix(d.Say, "Hello!") {
		t.Errorf("%q with a file: %s %q, want a greeting", tn.User, d.Kind, d.Say)
	}
	tn.User = "count the words"
	if d := decide(t, tn); len(d.Delegations) != 1 || d.Delegations[0].Agent != "wordcount" || d.Delegations[0].Task != tn.User {
		t.Errorf("%q with a file: %s %q %+v, want that wordcount gets it", tn.User, d.Kind, d.Say, d.Delegations)
	}
}
