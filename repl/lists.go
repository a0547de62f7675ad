package repl

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/lookalike"
	"github.com/cortex-orchestrator/cortex/internal/table"
)

// The tables of the chat are also those of the commands.

// AgentTable returns a table of agents.
func AgentTable(list []AgentInfo) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Title: "AGENT", Least: 20},
		{Title: "STATE"},
		{Title: "INSTANCES", Rank: 3},
		{Title: "SEEN", Rank: 1},
		{Title: "VERSION", Least: 10, Rank: 2},
		{Title: "CONFIDENCE"},
		{Title: "DESCRIPTION", Least: 36},
	}}
	for _, a := range list {
		about := strings.TrimSuffix(strings.TrimPrefix(a.Mark+" · "+a.Description, " · "), " · ")
		t.Row(a.ID, a.State, a.Instances, a.LastSeen, a.Version, a.Confidence, about)
		t.Mark(a.Mark)
	}
	return t
}

// TaskTable returns a table of tasks at the time now. named formats an agent's id.
func TaskTable(list []TaskInfo, named func(string) string, now time.Time) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Title: "TASK", IDs: true, Least: 13},
		{Title: "AGENT", Least: 16},
		{Title: "STATE"},
		{Title: "SENT", Rank: 2},
		{Title: "TOOK", Rank: 1},
		{Title: "TEXT", Least: 24},
	}}
	for _, task := range list {
		state, took := client.StateName(task.State), ""
		if task.Attempt > 1 {
			state += fmt.Sprintf(", attempt %d", task.Attempt)
		}
		if !task.Started.IsZero() && !task.Ended.IsZero() {
			took = elapsed(task.Ended.Sub(task.Started))
		}
		agent := named(task.Agent)
		t.Row(string(task.ID), agent, state, table.Ago(task.Started, now), took, task.Text)
		if agent != task.Agent {
			t.Mark(agent)
		}
	}
	return t
}

// ConversationTable returns a table of conversations, and marks the one with the id at, and ids that may be mistaken for another one of the list.
func ConversationTable(list []ConversationInfo, at string, now time.Time) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Title: "CONVERSATION", IDs: true, Least: 20},
		{Title: "OWNER", Least: 12},
		{Title: "UPDATED"},
		{Title: "TURNS", Rank: 3},
		{Title: "TOKENS", Rank: 2},
		{Title: "COST", Rank: 1},
		{Title: "TITLE", Least: 30},
	}}
	var alike lookalike.Set
	for _, c := range list {
		alike.Add(c.ContextID)
	}
	for _, c := range list {
		title := c.Title
		if c.ContextID == at {
			title = "(this one) " + title
		}
		mark := oneLine(alike.Mark(c.ContextID))
		if mark != "" {
			title = strings.TrimSuffix(mark+" · "+title, " · ")
		}
		t.Row(c.ContextID, c.Owner, table.Ago(c.Updated, now), c.Turns, c.Tokens, c.Cost, title)
		t.Mark(mark)
	}
	return t
}

// Quiet returns a text in the style for secondary information, if w has colours according to [Config.Color].
func Quiet(w io.Writer, color, text string) string {
	c := Config{Color: color}
	return c.screen(w, isTerminal(w)).style.dim(text)
}
