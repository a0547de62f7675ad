package learn

import (
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Learn takes from an entry that was just applied what it teaches. It does not wait.
func (s *Learner) Learn(conv *conversation.Conversation, entry *conversation.Entry) {
	turn := conv.Turn(entry.Turn)
	if s.notes == nil || turn == nil || conversation.IsAgent(turn.From) {
		return // what agents ask for among themselves teaches nothing: they could praise each other
	}
	if _, ok := transport.Request(entry.Cause); ok && corrects(turn.User) {
		s.retract(turnBefore(conv, turn))
	}
	if turn.AnswerSeq != entry.Seq || !turn.Kind.Fulfils() || turn.Past == nil {
		return
	}
	tasks := completed(turn)
	if last := turnBefore(conv, turn); last != nil && askedElsewhere(last, turn.User, tasks) {
		s.retract(last)
	}
	for _, t := range tasks {
		text, ok := evidenceFor(conv, turn, t, len(tasks) == 1)
		if !ok {
			continue
		}
		s.offer(t.Agent, &lesson{learned: []router.Evidence{{
			ID: string(t.ID), Skill: t.Skill, Text: conversation.Truncate(text, maxEvidenceText), From: turn.From, Time: entry.Time,
			Conversation: evidenceOf(conv.Tenant, conv.ContextID),
		}}})
	}
}

// evidence returns what the agent of a task that turn ended was good for: the words by which the user asked for it, when they are
// about nothing else and say it. Else the words of the task, if it was given before an agent had a word: those of later ones may
// be an agent's, who could praise itself with them, or others.
func evidenceFor(c *conversation.Conversation, turn *conversation.Turn, t prompt.Task, only bool) (text string, ok bool) {
	has := func(tasks []prompt.Task) bool {
		return slices.ContainsFunc(tasks, func(o prompt.Task) bool { return o.ID == t.ID })
	}
	began := turn
	if task := c.Tasks[t.ID]; task == nil || task.Continued || turn.Reply != nil { // the agent had asked back, or Cortex had
		for _, before := range c.History() {
			if slices.ContainsFunc(before.Past.Steps, func(s prompt.Step) bool { return has(s.Tasks) }) {
				began = before
				break
			}
		}
	}
	if words := began.Request(); only && len(plainWords(words, 3)) == 3 {
		return words, true
	}
	return t.Text, (began == turn || turn.Reply != nil) && has(turn.Past.Steps[0].Tasks)
}

// completed returns the tasks of an answered turn that were done, the latest of those that were given again.
func completed(turn *conversation.Turn) []prompt.Task {
	var tasks []prompt.Task
	for _, step := range turn.Past.Steps {
		for _, t := range step.Tasks {
			if t.State == a2a.TaskStateCompleted {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// retract takes back what turn taught.
func (s *Learner) retract(turn *conversation.Turn) {
	if turn == nil || turn.Past == nil {
		return
	}
	for _, t := range completed(turn) {
		s.offer(t.Agent, &lesson{wrong: []string{string(t.ID)}})
	}
}
