package mirror

import (
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// conversationRow, turnRow, taskRow and spendingRow are rows of the tables of these names.
type conversationRow struct {
	key            conversation.Key
	life, owner    string
	entries, turns int64
	began, updated *time.Time
	usage          llm.Usage
	damage         *string
	version        int64
}

type turnRow struct {
	key               conversation.Key
	id, message, user string
	asked             time.Time
	answered          *time.Time
	outcome           string
	failed            bool
	model             string
	steps, tasks      int64
	usage             llm.Usage
	trace             string
	problem           *string
	version           int64
}

type taskRow struct {
	key                           conversation.Key
	id, turn, agent, skill, state string
	attempts                      int64
	created                       time.Time
	sent, ended, deadline         *time.Time
	reason                        *string
	version                       int64
}

type spendingRow struct {
	key       conversation.Key
	version   int64
	purpose   string
	turn      string
	spent     time.Time
	model     string
	usage     llm.Usage
	estimated bool
}

// quarantineRow is an entry that cannot be read, or not as JSON.
type quarantineRow struct {
	record *storage.Record
	reason string
}

// entryColumns are the columns of an entry's row, in the order of entryRow.
var entryColumns = []string{
	"log", "version", "stored", "tenant", "context_id", "seq", "entry_time", "life", "turn_id", "task_id", "event_id", "event_type", "sender", "trace_id",
	"decision", "size", "sum", "mangled", "body",
}

// unreadable is the type of the event of an entry that cannot be read.
const unreadable = "system.unreadable"

// entryRow returns the row of a record. withBody is false for an entry whose body PostgreSQL has refused, or which must not be stored.
func entryRow(log int64, r *storage.Record, withBody bool) []any {
	row := make([]any, len(entryColumns))
	copy(row, []any{log, int64(r.Version), dated(r.Stored), clean(r.Tenant, maxText), clean(r.ContextID, maxText)}) //nolint:gosec // a sequence
	row[11], row[15], row[16], row[17] = unreadable, int64(len(r.Data)), int64(r.Sum), false
	e := r.Entry
	if e == nil {
		return row
	}
	row[5], row[6] = int64(min(e.Seq, 1<<62)), dated(e.Time) //nolint:gosec // bounded
	row[7], row[8] = optional(e.Life), optional(e.Turn)
	if c := e.Cause; c != nil {
		if id, ok := transport.ResultTask(c); ok {
			row[9] = optional(string(id))
		} else {
			row[9] = optional(string(c.TaskID))
		}
		parent, _ := c.Trace()
		row[10], row[12], row[13] = optional(c.ID), optional(c.From), optional(traceOf(parent))
	}
	row[11] = eventType(e)
	if e.Decision != nil {
		row[14] = optional(string(e.Decision.Kind))
	} else if e.Failure != "" {
		row[14] = "failure"
	}
	if withBody {
		body, mangled := cleanJSON(r.Data)
		row[17], row[18] = mangled, string(body)
	}
	return row
}

// eventType returns the name of what caused an entry, as category.action.
func eventType(e *conversation.Entry) string {
	if e.Cause == nil {
		return "system.unknown"
	}
	if _, ok := transport.Request(e.Cause); ok {
		return "message.received"
	}
	if r, ok := conversation.ResultOf(e.Cause); ok {
		switch {
		case e.Rejected != "":
			return "eval.failed"
		case r.State == a2a.TaskStateInputRequired:
			return "task.input_required"
		case r.State.Terminal():
			return "task.result"
		}
		return "task.progress"
	}
	switch e.Cause.Payload.(type) {
	case *transport.Deadline:
		return "task.timeout"
	case *transport.Cancel:
		return "session.canceled"
	case *transport.Share:
		return "session.shared"
	case *transport.AgentEvent:
		return "agent.lost"
	}
	return "system.event"
}

// traceOf returns the trace id of a traceparent.
func traceOf(parent string) string {
	if len(parent) < 35 {
		return ""
	}
	return parent[3:35]
}

// optional is clean for a column that is null without a value.
func optional(s string) any {
	if s == "" {
		return nil
	}
	return clean(s, maxText)
}

// The times that a column can have. Those of PostgreSQL go further, but no program can read them.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// dated returns a time that a column can have.
func dated(t time.Time) time.Time {
	switch {
	case t.Before(firstTime):
		return firstTime
	case t.After(lastTime):
		return lastTime
	}
	return t.UTC().Truncate(time.Microsecond)
}

// when is dated for a column that is null without a time.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = dated(t)
	return &t
}

// words returns what somebody wrote, for a column that is null without it.
func words(s string) *string {
	if s == "" {
		return nil
	}
	s = clean(s, maxWords)
	return &s
}

// spendingOf returns what an entry has cost, a row for each purpose.
func spendingOf(key conversation.Key, e *conversation.Entry) (rows []spendingRow) {
	add := func(purpose, model string, u llm.Usage) {
		if u != (llm.Usage{}) {
			rows = append(rows, spendingRow{
				key: key, version: int64(e.Version), purpose: purpose, turn: clean(e.Turn, maxText), spent: dated(e.Time), model: clean(model, maxText), //nolint:gosec // a sequence
				usage: u, estimated: u.Estimated,
			})
		}
	}
	rest := conversation.Credible(e.Usage)
	if e.Decision != nil {
		add("decision", e.Decision.Model, conversation.Credible(e.Decision.Usage))
	}
	if s := e.Summary; s != nil {
		u := conversation.Credible(s.Usage)
		add("summary", s.Model, u)
		estimated := rest.Estimated
		rest = llm.Usage{
			Input: max(0, rest.Input-u.Input), Cached: max(0, rest.Cached-u.Cached), CacheWrite: max(0, rest.CacheWrite-u.CacheWrite),
			Output: max(0, rest.Output-u.Output), Reasoning: max(0, rest.Reasoning-u.Reasoning), Cost: max(0, rest.Cost-u.Cost),
		}
		if rest != (llm.Usage{}) {
			rest.Estimated = estimated
		}
	}
	add("failed", "", rest)
	return rows
}
