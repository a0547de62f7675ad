package conversation

import (
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// View returns what a decider sees in order to decide about turn, except the agents and the limits. Of the tasks that wait for a reply it has those that the
// sender may answer. The History is shared with the
// conversation: a caller copies what it changes.
func (c *Conversation) View(turn *Turn, now time.Time) *llm.Turn {
	t := &llm.Turn{Tenant: c.Tenant, ContextID: c.ContextID, ID: turn.ID}
	t.Summary, t.Omitted, t.User, t.Now = c.Summary, c.Omitted, turn.User, now
	t.TimeZone, t.Locale = turn.TimeZone, turn.Locale
	t.Files = promptFiles(turn.Files)
	c.History()
	t.History = slices.Clip(c.promptHistory)
	t.Steps = c.promptSteps(turn)
	for _, w := range c.Asking() {
		if c.mayAnswer(turn, w) {
			t.Waiting = append(t.Waiting, PromptTask(w))
		}
	}
	return t
}

// mayAnswer reports whether the sender of turn may answer the question in which w waits: who asked for w, and nobody else who speaks in the conversation. Of
// a task whose turn has been dropped a person may be that; what waits for a person, no agent answers.
func (c *Conversation) mayAnswer(turn *Turn, w *Task) bool {
	asked := c.Turn(w.Turn)
	return asked != nil && asked.From == turn.From || asked == nil && !IsAgent(turn.From)
}

func (c *Conversation) promptSteps(turn *Turn) []prompt.Step {
	var steps []prompt.Step
	for _, s := range turn.Steps {
		step := prompt.Step{Say: s.Say, Reason: s.Reason}
		for _, id := range s.Tasks {
			if t := c.Tasks[id]; t != nil {
				step.Tasks = append(step.Tasks, PromptTask(t))
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// PromptTask returns t as prompts show it.
func PromptTask(t *Task) prompt.Task {
	return prompt.Task{
		ID: t.ID, Agent: t.Agent, Skill: t.Skill, Text: t.Text, Input: t.Input, DependsOn: t.DependsOn, Along: Keys(t.Along),
		State: t.State(), Result: t.Result, Artifacts: t.Artifacts, Files: promptFiles(t.Files),
		Sent: t.Sent, Settled: t.Settled,
	}
}

// TaskList returns the tasks that c still knows, the oldest first: open ones, and those of the turns answered last.
func (c *Conversation) TaskList() []*Task {
	return c.tasks(func(*Task) bool { return true }, func(t *Task) uint64 { return t.SentSeq })
}
