package cortex

import (
	"slices"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// forget lets go of the settled tasks of turns that the entry before answered: nothing refers to them any more.
func (c *Conversation) forget() {
	for _, turn := range c.Turns {
		if !turn.Open() && turn.AnswerSeq == c.Seq {
			for _, t := range c.tasksOf(turn) {
				if t.State.Terminal() {
					delete(c.Tasks, t.ID)
				}
			}
		}
	}
	for id, t := range c.Tasks { // a question that was settled after its turn
		if t.State.Terminal() && t.SettledSeq == c.Seq {
			if turn := c.turn(t.Turn); turn == nil || !turn.Open() {
				delete(c.Tasks, id)
			}
		}
	}
}

// answered returns the answered turns of the window in the order of their answers.
func (c *Conversation) answered() []*Turn {
	turns := slices.DeleteFunc(slices.Clone(c.Turns), (*Turn).Open)
	slices.SortStableFunc(turns, func(a, b *Turn) int { return int(a.AnswerSeq) - int(b.AnswerSeq) })
	return turns
}

// shrink leaves out the older half of the answered turns when there are too many or they are too long.
func (c *Conversation) shrink() {
	turns := c.answered()
	weight := 0
	for _, t := range turns {
		weight += turnWeight(t)
	}
	if len(turns) < 2 || (len(turns) <= maxWindow && weight <= maxWeight) {
		return
	}
	drop := turns[:len(turns)/2]
	c.Turns = slices.DeleteFunc(c.Turns, func(t *Turn) bool { return t.AnswerSeq != c.Seq && slices.Contains(drop, t) })
	c.Omitted += len(drop)
}

// weight estimates the memory that c takes, in bytes.
func (c *Conversation) weight() int {
	n := 1024 + 100*len(c.Seen)
	for _, t := range c.Turns {
		n += 512 + turnWeight(t)
	}
	for _, t := range c.Tasks {
		n += 512 + taskWeight(promptTask(t))
	}
	return n
}

func taskWeight(t prompt.Task) int {
	n := len(t.Text) + len(t.Result) + len(t.Input)
	for _, a := range t.Artifacts {
		n += len(a.Name) + len(a.Text)
	}
	return n
}

func turnWeight(t *Turn) int {
	n := len(t.User) + len(t.Answer)
	if t.Past == nil {
		return n
	}
	for _, s := range t.Past.Steps {
		for _, task := range s.Tasks {
			n += taskWeight(task)
		}
	}
	return n
}
