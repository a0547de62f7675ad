package decide

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// Lost is an entry whose decision was paid for, but which came second, and the fold that it was made for.
type Lost struct {
	Entry *conversation.Entry
	Conv  *conversation.Conversation
}

// adopt takes the decision or the failure of a lost entry for this entry, if the log has gained nothing since that the decider would have seen. It
// returns false when a new decision is needed.
func (d *decision) adopt(ctx context.Context, lost *Lost) bool {
	if lost == nil || lost.Entry.Decision == nil && lost.Entry.Failure == "" {
		return false
	}
	before := lost.Conv.Turn(d.turn.ID)
	if before == nil {
		return false
	}
	then, now := basis(lost.Conv, before), basis(d.conv, d.turn)
	if then == nil || !bytes.Equal(then, now) {
		return false
	}
	if decided := lost.Entry.Decision; decided != nil {
		for i := range decided.Delegations {
			if d.veto(decided.Delegations[i].Agent, decided.Delegations[i].Skill) != "" {
				return false
			}
		}
		if len(d.admit(decided, lost.Entry.Consent == "")) > 0 { // the limits counted its tasks under other ids
			return false
		}
		if lost.Entry.Consent == "" { // the same for calls that may not be repeated
			if claimed, err := d.claim(ctx, d.gated(decided)); !claimed || err != nil {
				return false
			}
		}
	}
	e, was := d.entry, lost.Entry
	e.Decision, e.Failure, e.Usage = was.Decision, was.Failure, was.Usage
	e.Roster, e.Shortlist, e.Terms, e.Consent = was.Roster, was.Shortlist, was.Terms, was.Consent
	e.Summary, e.Omitted, e.Patterns = was.Summary, was.Omitted, was.Patterns
	return true
}

// basis returns what a decision about turn is based on, for comparison; nil when it cannot be compared.
func basis(c *conversation.Conversation, turn *conversation.Turn) []byte {
	shown := c.View(turn, time.Time{})
	g := struct {
		User, Summary string
		Omitted       int
		History       []prompt.Turn
		Steps         []prompt.Step
		Waiting       []prompt.Task
		Asked         []prompt.Task
		Reply         any
		Decisions     int
		Listed        []prompt.Agent
		Changes       []conversation.Change
		Relist        bool
		Choice        bool
		ListedSize    int
	}{
		User: shown.User, Summary: shown.Summary, Omitted: shown.Omitted, History: shown.History, Steps: shown.Steps, Waiting: shown.Waiting,
		Reply: turn.Reply, Decisions: turn.Decisions, Listed: c.Listed, Changes: c.Changes, Relist: c.Relist, Choice: c.Choice, ListedSize: c.ListedSize,
	}
	for _, t := range c.Held() {
		g.Asked = append(g.Asked, conversation.PromptTask(t))
	}
	b, err := json.Marshal(g)
	if err != nil {
		return nil
	}
	return b
}
