package conversation

import (
	"fmt"
)

// OverLimit returns why turn cannot go on, or "". Open turns of people and of agents are limited separately, so that agents cannot use up
// what the conversation's people need.
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

// MaxParallel is the maximum number of delegations of one decision.
const MaxParallel = 8

// MaxSteps is the maximum number of decisions of one turn; the last one may only answer.
const MaxSteps = 8

// MaxOpenTurns is the maximum number of unanswered messages in one conversation, of people and of agents each.
const MaxOpenTurns = 32

// MaxHops bounds how many agents hand one request on to each other: MaxHops-1 may.
const MaxHops = 4

// MaxEntries is the maximum length of a conversation's log. Beyond it new messages are refused, nobody is let in, and open turns end.
const MaxEntries = 100_000
