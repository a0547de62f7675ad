package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

var (
	// errMoved means that the position is not the expected one: another mirror writes as well, or has.
	errMoved = errors.New("another mirror has written in the meantime")
	// errNoMirror means that the database has no mirror of the log.
	errNoMirror = errors.New("this database has no mirror of this log: `cortex mirror --postgres URL` makes one")
)

// txTimeout bounds a transaction, including the wait for locks.
const txTimeout = 60 * time.Second

// codeOf returns the SQLSTATE of an error, or "".
func codeOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// isRefusal reports whether PostgreSQL refuses what is in a row: a repetition would not help.
func isRefusal(err error) bool {
	switch code := codeOf(err); {
	case code == "":
		return false
	case code == "54001": // the stack, for JSON that is nested too deeply
		return true
	default:
		return code[:2] == "22" || code[:2] == "54" || code[:2] == "21" || code[:2] == "23"
	}
}

// batch is what one transaction writes.
type batch struct {
	log        int64
	from, to   int64 // positions
	records    []*storage.Record
	erased     []int64
	quarantine []quarantineRow
	rows       *projection // nil: none
	withBody   bool
	content    bool
}

// write writes b. It returns errMoved, and writes nothing, when the position is not b.from.
func write(ctx context.Context, conn *pgx.Conn, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE cortex.logs SET position = $3, updated = now() WHERE log = $1 AND position = $2", b.log, b.from, b.to)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			return errMoved
		}
		if len(b.records) > 0 {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"cortex", "entries"}, entryColumns, pgx.CopyFromSlice(len(b.records), func(i int) ([]any, error) {
				return entryRow(b.log, b.records[i], b.withBody), nil
			}))
			if err != nil {
				return err
			}
		}
		q := &pgx.Batch{}
		for _, row := range b.quarantine {
			r := row.record
			var raw []byte
			if b.content {
				raw = r.Data
			}
			q.Queue("INSERT INTO cortex.quarantine (log, version, stored, tenant, context_id, reason, raw) VALUES ($1, $2, $3, $4, $5, $6, $7)",
				b.log, int64(r.Version), dated(r.Stored), clean(r.Tenant, maxText), clean(r.ContextID, maxText), clean(row.reason, maxWords), raw) //nolint:gosec // a sequence
		}
		if len(b.erased) > 0 {
			q.Queue("INSERT INTO cortex.erasing (log, version) SELECT $1, unnest($2::bigint[]) ON CONFLICT (log, version) DO UPDATE SET said = now()", b.log, b.erased)
		}
		b.rows.queue(q, b.log)
		return tx.SendBatch(ctx, q).Close()
	})
}

// queue adds the statements that write p.
func (p *projection) queue(q *pgx.Batch, log int64) {
	if p == nil {
		return
	}
	if n := len(p.conversations); n > 0 {
		a := columns{n: n}
		for _, r := range p.conversations {
			a.add(r.key.Tenant, r.key.ContextID, r.life, r.owner, r.entries, r.turns, r.began, r.updated, int64(r.usage.Input), int64(r.usage.Output),
				int64(r.usage.Cached), r.usage.Cost, r.damage, r.version)
		}
		q.Queue(`INSERT INTO cortex.conversations (log, tenant, context_id, life, owner, entries, turns, began, updated, input_tokens, output_tokens, cached_tokens, cost, damage, version)
			SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::bigint[],
				$12::bigint[], $13::float8[], $14::text[], $15::bigint[])
			ON CONFLICT (log, tenant, context_id) DO UPDATE SET life = excluded.life, owner = excluded.owner, entries = excluded.entries, turns = excluded.turns, began = excluded.began,
				updated = excluded.updated, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cached_tokens = excluded.cached_tokens,
				cost = excluded.cost, damage = excluded.damage, version = excluded.version`, a.args(log)...)
	}
	if n := len(p.turns); n > 0 {
		a := columns{n: n}
		for _, r := range p.turns {
			a.add(r.key.Tenant, r.key.ContextID, r.id, r.message, r.user, r.asked, r.answered, r.outcome, r.failed, r.model, r.steps, r.tasks, int64(r.usage.Input),
				int64(r.usage.Output), int64(r.usage.Cached), r.usage.Cost, r.trace, r.problem, r.version)
		}
		q.Queue(`INSERT INTO cortex.turns (log, tenant, context_id, turn_id, message_id, user_id, asked, answered, outcome, failed, model, steps, tasks, input_tokens, output_tokens,
				cached_tokens, cost, trace_id, error, version)
			SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::text[], $10::bool[], $11::text[],
				$12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::float8[], $18::text[], $19::text[], $20::bigint[])
			ON CONFLICT (log, tenant, context_id, turn_id) DO UPDATE SET answered = excluded.answered, outcome = excluded.outcome, failed = excluded.failed, model = excluded.model,
				steps = excluded.steps, tasks = excluded.tasks, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
				cached_tokens = excluded.cached_tokens, cost = excluded.cost, error = excluded.error, version = excluded.version`, a.args(log)...)
	}
	if n := len(p.tasks); n > 0 {
		a := columns{n: n}
		for _, r := range p.tasks {
			a.add(r.key.Tenant, r.key.ContextID, r.id, r.turn, r.agent, r.skill, r.state, r.attempts, r.created, r.sent, r.ended, r.deadline, r.reason, r.version)
		}
		q.Queue(`INSERT INTO cortex.tasks (log, tenant, context_id, task_id, turn_id, agent, skill, state, attempts, created, sent, ended, deadline, reason, version)
			SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::timestamptz[], $11::timestamptz[],
				$12::timestamptz[], $13::timestamptz[], $14::text[], $15::bigint[])
			ON CONFLICT (log, tenant, context_id, task_id) DO UPDATE SET turn_id = excluded.turn_id, agent = excluded.agent, skill = excluded.skill, state = excluded.state,
				attempts = excluded.attempts, sent = excluded.sent, ended = excluded.ended, deadline = excluded.deadline, reason = excluded.reason, version = excluded.version`, a.args(log)...)
	}
	if n := len(p.spending); n > 0 {
		a := columns{n: n}
		for _, r := range p.spending {
			a.add(r.version, r.purpose, r.key.Tenant, r.key.ContextID, r.turn, r.spent, r.model, int64(r.usage.Input), int64(r.usage.Output), int64(r.usage.Cached), r.usage.Cost, r.estimated)
		}
		q.Queue(`INSERT INTO cortex.spending (log, version, purpose, tenant, context_id, turn_id, spent, model, input_tokens, output_tokens, cached_tokens, cost, estimated)
			SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[], $9::bigint[], $10::bigint[], $11::bigint[],
				$12::float8[], $13::bool[])`, a.args(log)...)
	}
}

// columns collects rows as one array for each column.
type columns struct {
	n   int
	all []any // each is a slice of the type of its column's first value
}

func (c *columns) add(row ...any) {
	if c.all == nil {
		c.all = make([]any, len(row))
	}
	for i, v := range row {
		switch v := v.(type) {
		case string:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case *string:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case int64:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case float64:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case bool:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case time.Time:
			c.all[i] = appendTo(c.all[i], v, c.n)
		case *time.Time:
			c.all[i] = appendTo(c.all[i], v, c.n)
		default:
			panic(fmt.Sprintf("a column of %T", v))
		}
	}
}

func appendTo[T any](list any, v T, room int) []T {
	if list == nil {
		return append(make([]T, 0, room), v)
	}
	return append(list.([]T), v)
}

// args returns the arguments of a statement: the log, and the columns.
func (c *columns) args(log int64) []any { return append([]any{log}, c.all...) }

// projections are the tables of what follows from the entries of a conversation.
var projections = []string{"conversations", "turns", "tasks", "spending"}

// remove deletes the entries of versions, and with them what followed from them: the conversations that they belonged to are folded again by refold, and
// vanish when nothing of them is left.
func remove(ctx context.Context, tx pgx.Tx, log int64, versions []int64, refold func(conversation.Key) (*projection, error)) (deleted int64, err error) {
	keys := map[conversation.Key]bool{}
	for _, table := range []string{"entries", "quarantine"} {
		rows, err := tx.Query(ctx, "DELETE FROM cortex."+table+" WHERE log = $1 AND version = ANY($2) RETURNING tenant, context_id", log, versions)
		if err != nil {
			return deleted, err
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[conversation.Key])
		if err != nil {
			return deleted, err
		}
		for _, k := range all {
			keys[k] = true
		}
		if table == "entries" {
			deleted = int64(len(all))
		}
	}
	q := &pgx.Batch{}
	for k := range keys {
		p, err := refold(k)
		if err != nil {
			return deleted, err
		}
		for _, table := range projections {
			q.Queue("DELETE FROM cortex."+table+" WHERE log = $1 AND tenant = $2 AND context_id = $3", log, k.Tenant, k.ContextID)
		}
		p.queue(q, log)
	}
	return deleted, tx.SendBatch(ctx, q).Close()
}
