package learn

import (
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Learn extracts evidence from an entry that was just applied. It does not wait.
func (s *Learner) Learn(conv *conversation.Conversation, entry *conversation.Entry) {
	turn := conv.Turn(entry.Turn)
	if turn == nil || conversation.IsAgent(turn.From) {
		return // requests of agents are no evidence: they could praise each other
	}
	s.record(conv, entry)
	if s.notes == nil {
		return
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

// evidenceFor returns the text for which the agent of a task was good, in a turn that has ended. It is the user's request, when that has no other
// task (only) and enough words. Otherwise it is the text of the task, if it was given before any agent had replied: later texts may contain an
// agent's words, with which it could praise itself or others.
func evidenceFor(c *conversation.Conversation, turn *conversation.Turn, t prompt.Task, only bool) (text string, ok bool) {
	has := func(tasks []prompt.Task) bool {
		return slices.ContainsFunc(tasks, func(o prompt.Task) bool { return o.ID == t.ID })
	}
	began := turn
	if task := c.Tasks[t.ID]; task == nil || task.Continued || turn.Reply != nil { // the user replied to a question: find the request
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

// completed returns the completed tasks of an answered turn.
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

// retract removes the evidence of a turn.
func (s *Learner) retract(turn *conversation.Turn) {
	if turn == nil || turn.Past == nil {
		return
	}
	for _, t := range completed(turn) {
		s.offer(t.Agent, &lesson{wrong: []string{string(t.ID)}})
	}
}
