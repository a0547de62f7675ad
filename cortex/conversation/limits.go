package conversation

import (
	"fmt"
)

// OverLimit returns why turn cannot go on, or "". The limits for open turns of people and of agents are apart, so that agents leave some to
// whose conversation it is.
func (c *Conversation) OverLimit(turn *Turn) string {
	open := 0
	for _, t := range c.Turns {
		if t.Open() && IsAgent(t.From) == IsAgent(turn.From) {
			open++
		}
	}
	switch {
	case turn.Decisions == 0 && open > MaxOpenTurns:
		return fmt.Sprintf("There are %d open requests in this conversation already. Wait for an answer, or cancel one, and ask again.", MaxOpenTurns)
	case turn.Hops >= MaxHops:
		return fmt.Sprintf("The request was handed on by %d agents; more than %d are not allowed.", turn.Hops, MaxHops-1)
	}
	return ""
}

const MaxParallel = 8 // tasks of one decision

const MaxSteps = 8 // decisions; the last one may only answer

const MaxOpenTurns = 32 // unanswered messages of one conversation

const MaxHops = 4 // agents that hand a request on to each other

// MaxEntries is how long the log of a conversation can get: then new messages are refused, and what is open ends.
const MaxEntries = 100_000
