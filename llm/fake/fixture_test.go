package fake_test

import (
	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

func agent(id, description string, skills ...a2a.AgentSkill) prompt.Agent {
	return prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Description: description, Skills: skills}}
}

// agents returns the agents of the tests, sorted by id as in a turn.
func agents() []prompt.Agent {
	research := agent("ResearchAgent", "On-demand research agent. Searches the web, fetches pages, and synthesises answers.",
		a2a.AgentSkill{ID: "research", Name: "Research", Description: "Research a topic using web search and page fetching, then synthesise a concise answer."})
	research.Seen = false
	return []prompt.Agent{
		research,
		agent("agent_calc", "Does arithmetic and converts units",
			a2a.AgentSkill{
				ID: "calc", Name: "Calculate", Description: "Evaluates an arithmetic expression", Tags: []string{"math", "calculator"},
				Examples: []string{"what is 17 * 23?", "calculate (3 + 4) / 2", "how much is 15% of 80"},
			},
			a2a.AgentSkill{
				ID: "convert", Name: "Convert units", Description: "Converts between units of length, weight and temperature",
				Tags: []string{"units"}, Examples: []string{"convert 10 km to miles", "how many feet are in 3 meters", "5 C in F"},
			}),
		agent("agent_clock", "Tells the time and the date anywhere in the world",
			a2a.AgentSkill{
				ID: "time", Name: "World time", Description: "The current time in a city or time zone", Tags: []string{"time", "clock"},
				Examples: []string{"what time is it in Tokyo?", "what is the time in New York", "what day is it today?"},
			}),
		agent("agent_echo", "A simple echo agent that repeats back messages for testing purposes",
			a2a.AgentSkill{
				ID: "echo", Name: "Echo Messages", Description: "Echoes back any text message with an 'Echo: ' prefix",
				Tags:     []string{"testing", "echo", "debug"},
				Examples: []string{"Echo this message", "Repeat what I say", "Test echo functionality"},
			}),
		agent("agent_mail", "Reads and sends mail",
			a2a.AgentSkill{ID: "send", Name: "Send mail", Description: "Sends an email", Examples: []string{"send a mail to Bob", "email Alice that I am late"}},
			a2a.AgentSkill{ID: "inbox", Name: "Read the inbox", Description: "Lists new mail", Examples: []string{"do I have new mail?"}}),
		agent("agent_notes", "Keeps notes and reminders",
			a2a.AgentSkill{
				ID: "notes", Name: "Notes", Description: "Saves, lists and finds notes", Tags: []string{"notes", "todo", "reminder"},
				Examples: []string{"note that it's mom's birthday", "remind me to call mom", "list my notes"},
			}),
		agent("agent_weather", "Weather forecasts for any place",
			a2a.AgentSkill{
				ID: "forecast", Name: "Forecast", Description: "The weather today and in the next days", Tags: []string{"weather", "rain", "temperature"},
				Examples: []string{"what is the weather in Paris?", "will it rain tomorrow in London?"},
			}),
		agent("wordcount", "Counts the words of a text"),
	}
}

func turn(user string) *llm.Turn {
	return &llm.Turn{ContextID: "c", ID: "m", Input: prompt.Input{Agents: agents(), User: user, MaxParallel: 8}}
}
