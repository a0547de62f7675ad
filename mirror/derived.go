package mirror

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// derivedAtOnce is how many conversations have their rows compared at a time.
const derivedAtOnce = 200

// Rows are rows of what follows from entries, such as turns.
type Rows struct {
	Count int64    `json:"count"`
	Some  []string `json:"rows"` // at most 100: the table, and what names the row in it
}

func (r *Rows) add(row string) {
	if r.Count++; len(r.Some) < maxNamed {
		r.Some = append(r.Some, row)
	}
}

// derivedReader compares which conversations, turns, tasks and costs have rows with what follows from the log. What the rows say is left out: another version
// of Cortex may tell it otherwise.
type derivedReader struct {
	tx       pgx.Tx
	log      int64
	position int64
	retired  int64     // rows that have not changed since may have been dropped
	from     time.Time // and so may those of a time before, if anything was
	folder   *folder
	seen     map[conversation.Key]bool // conversations with entries
}

// see has the rows of a record's conversation compared.
func (d *derivedReader) see(r *storage.Record) {
	d.seen[conversation.Key{Tenant: r.Tenant, ContextID: r.ContextID}] = true
}

// compare compares the rows of all conversations that were seen.
func (d *derivedReader) compare(ctx context.Context, r *Report) error {
	rows, err := d.tx.Query(ctx, "SELECT DISTINCT tenant, context_id FROM cortex.quarantine WHERE log = $1", d.log)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	unread, err := pgx.CollectRows(rows, pgx.RowToStructByPos[conversation.Key])
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if d.retired > 0 { // then whole months of entries were dropped, and the rows of earlier times
		var first *time.Time
		if err := d.tx.QueryRow(ctx, "SELECT min(stored) FROM cortex.entries WHERE log = $1", d.log).Scan(&first); err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		if first != nil {
			d.from = monthOf(*first)
		}
	}
	left := map[conversation.Key]bool{}
	for _, key := range unread {
		left[key] = true
	}
	maps.DeleteFunc(d.seen, func(key conversation.Key, _ bool) bool { return left[rowKey(key)] }) // not all follows from their entries
	keys := slices.SortedFunc(maps.Keys(d.seen), func(a, b conversation.Key) int {
		return strings.Compare(a.Tenant+"\x00"+a.ContextID, b.Tenant+"\x00"+b.ContextID)
	})
	for some := range slices.Chunk(keys, derivedAtOnce) {
		want, damaged := map[string]wanted{}, map[conversation.Key]bool{} // by the names of the rows
		tenants, contexts := make([]string, len(some)), make([]string, len(some))
		for i, key := range some {
			p := newProjection()
			fold, err := d.folder.load(ctx, key, conversation.Version(d.position)+1, p) //nolint:gosec // a sequence
			if err != nil {
				return fmt.Errorf("the log: %w", err)
			}
			key = rowKey(key)
			tenants[i], contexts[i], damaged[key] = key.Tenant, key.ContextID, fold.damaged != ""
			p.names(want)
		}
		there, err := d.rows(ctx, tenants, contexts)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if _, ok := there[name]; !ok && !d.dropped(want[name]) {
				r.MissingRows.add(name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(there)) {
			if _, ok := want[name]; !ok && !damaged[there[name]] && d.retired == 0 { // where the entries do not go on, something may follow from later ones
				r.ExtraRows.add(name)
			}
		}
	}
	if d.retired > 0 {
		return nil
	}
	for _, key := range keys {
		left[rowKey(key)] = true // compared
	}
	there, err := d.query(ctx, "WHERE t.log = $1 AND NOT EXISTS (SELECT FROM cortex.entries e WHERE e.log = t.log AND e.tenant = t.tenant AND e.context_id = t.context_id)", d.log)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !left[there[name]] {
			r.ExtraRows.add(name)
		}
	}
	return nil
}

// dropped reports whether a row may have been dropped since it is too old.
func (d *derivedReader) dropped(w wanted) bool {
	return d.retired > 0 && (w.version <= d.retired || w.at != nil && w.at.Before(d.from))
}

// wanted is the last version of what a row says, and the time by which retire drops it, which is one of entries, not the one at which they were stored.
type wanted struct {
	version int64
	at      *time.Time
}

// names adds p's rows to all, by their names.
func (p *projection) names(all map[string]wanted) {
	for _, r := range p.conversations {
		all[rowName("conversations", r.key, "")] = wanted{r.version, r.updated}
	}
	for _, r := range p.turns {
		all[rowName("turns", r.key, r.id)] = wanted{r.version, cmp.Or(r.answered, &r.asked)}
	}
	for _, r := range p.tasks {
		all[rowName("tasks", r.key, r.id)] = wanted{r.version, cmp.Or(r.ended, &r.created)}
	}
	for _, r := range p.spending {
		all[rowName("spending", r.key, spendingName(r.version, r.purpose))] = wanted{r.version, &r.spent}
	}
}

// rows returns the conversations of the rows of some conversations, by the names of the rows.
func (d *derivedReader) rows(ctx context.Context, tenants, contexts []string) (map[string]conversation.Key, error) {
	return d.query(ctx, "JOIN unnest($2::text[], $3::text[]) AS k (tenant, context_id) ON t.tenant = k.tenant AND t.context_id = k.context_id WHERE t.log = $1", d.log, tenants, contexts)
}

// query is rows for the rows t that a query is about.
func (d *derivedReader) query(ctx context.Context, which string, args ...any) (map[string]conversation.Key, error) {
	there := map[string]conversation.Key{}
	for table, id := range map[string]string{"conversations": "''", "turns": "t.turn_id", "tasks": "t.task_id", "spending": "t.version || '/' || t.purpose"} {
		rows, err := d.tx.Query(ctx, "SELECT t.tenant, t.context_id, "+id+" FROM cortex."+table+" t "+which, args...)
		if err != nil {
			return nil, err
		}
		var key conversation.Key
		var name string
		if _, err := pgx.ForEachRow(rows, []any{&key.Tenant, &key.ContextID, &name}, func() error {
			there[rowName(table, key, name)] = key
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return there, nil
}

func spendingName(version int64, purpose string) string {
	return strconv.FormatInt(version, 10) + "/" + purpose
}

func rowName(table string, key conversation.Key, id string) string {
	return fmt.Sprintf("%s %q %q %q", table, key.Tenant, key.ContextID, id)
}
