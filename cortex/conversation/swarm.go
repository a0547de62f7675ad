package conversation

import (
	"fmt"
	"strings"
	"unicode"
)

// A swarm does one task several times: each of its agents gets the same text, and in each later round also what the others came to. A round is a step of
// the turn like any other. The swarm ends when all results agree, when there is nothing to compare, or at one of its bounds; then it is decided as usual.

// Swarm is a round of a swarm, of which a step has the tasks.
type Swarm struct {
	Round  int    `json:"round"`  // from 1
	Rounds int    `json:"rounds"` // at most
	Tokens int    `json:"tokens"` // of all texts of all rounds, at most; see [SwarmState]
	Task   string `json:"task"`   // the text that all get
}

// SwarmEnd is how a swarm ended.
type SwarmEnd string

// The ends of a swarm.
const (
	SwarmAgreed   SwarmEnd = "agreed"   // all that have a result have the same
	SwarmRounds   SwarmEnd = "rounds"   // the last round is over
	SwarmTokens   SwarmEnd = "tokens"   // the tokens are used up
	SwarmAlone    SwarmEnd = "alone"    // fewer than two have a result, or may go on
	SwarmQuestion SwarmEnd = "question" // one of them asks the user
)

// SwarmState is where the last swarm of a turn is, when none of its tasks is with an agent.
type SwarmState struct {
	*Swarm
	Tasks  []*Task  // of the last round, in its order
	Done   []*Task  // those of them that have a result
	Began  int      // number of agents in the first round
	Spent  int      // tokens, four bytes of the tasks and results of all rounds each
	End    SwarmEnd // "": another round may follow
	IsLast bool     // whether the last step of the turn is a round of it
}

// bytesPerToken is an estimate, as no model is asked.
const bytesPerToken = 4

// Swarm returns the state of the last swarm of a turn, or nil when it had none.
func (c *Conversation) Swarm(turn *Turn) *SwarmState {
	var s *SwarmState
	for i, step := range turn.Steps {
		if step.Swarm == nil {
			continue
		}
		if step.Swarm.Round == 1 || s == nil {
			s = &SwarmState{Began: len(step.Tasks)}
		}
		s.Swarm, s.Tasks, s.Done, s.IsLast = step.Swarm, nil, nil, i == len(turn.Steps)-1
		for _, id := range step.Tasks {
			t := c.Tasks[id]
			if t == nil {
				continue
			}
			s.Tasks = append(s.Tasks, t)
			s.Spent += (len(t.Text) + len(t.Result)) / bytesPerToken
			if t.Phase == Completed {
				s.Done = append(s.Done, t)
			}
		}
	}
	if s != nil {
		s.End = s.end()
	}
	return s
}

func (s *SwarmState) end() SwarmEnd {
	for _, t := range s.Tasks {
		if t.Phase == Asking || t.Phase == Held {
			return SwarmQuestion
		}
	}
	switch {
	case len(s.Done) < 2:
		return SwarmAlone
	case agree(s.Done):
		return SwarmAgreed
	case s.Round >= s.Rounds:
		return SwarmRounds
	case s.Spent >= s.Tokens:
		return SwarmTokens
	}
	return ""
}

// agree reports whether tasks have the same result, except for case, space, and punctuation at its ends.
func agree(tasks []*Task) bool {
	for _, t := range tasks[1:] {
		if comparable(t.Result) != comparable(tasks[0].Result) {
			return false
		}
	}
	return comparable(tasks[0].Result) != ""
}

func comparable(s string) string {
	s = strings.Join(strings.Fields(strings.ToLower(s)), " ")
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsPunct(r) && r != '-' })
}

// Words says, for people, how the swarm ended.
func (s *SwarmState) Words() string {
	rounds := "1 round"
	if s.Round != 1 {
		rounds = fmt.Sprintf("%d rounds", s.Round)
	}
	who := fmt.Sprintf("%d agents worked on this for %s", s.Began, rounds)
	switch s.End {
	case SwarmAgreed:
		return who + fmt.Sprintf(", and %d of them agree", len(s.Done))
	case SwarmRounds:
		return who + ", which was the last, and do not agree"
	case SwarmTokens:
		return who + ", until the tokens for it were used up, and do not agree"
	case SwarmQuestion:
		return who + ", and one of them asks something"
	}
	if len(s.Done) > 1 {
		return who + ", do not agree, and may not go on"
	}
	return who + fmt.Sprintf(", and %d of them had a result to compare", len(s.Done))
}
