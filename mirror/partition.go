package mirror

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// firstPartition is the oldest month that gets a partition of its own, and partitionsAhead how many months after this one have theirs. Other times are
// those of a wrong clock, and are in the default partition.
const (
	firstPartition  = 2024
	partitionsAhead = 2
)

// monthOf returns the beginning of a time's month.
func monthOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// partitions makes the partitions of entries.
type partitions struct{ there map[time.Time]bool }

// ensure makes the partition of t, if that is a time that has one.
func (p *partitions) ensure(ctx context.Context, conn *pgx.Conn, t, now time.Time) error {
	month := monthOf(t)
	if p.there[month] || month.Year() < firstPartition || month.After(monthOf(now).AddDate(0, partitionsAhead, 0)) {
		return nil
	}
	end := month.AddDate(0, 1, 0)
	name := pgx.Identifier{"cortex", "entries_" + month.Format("2006_01")}.Sanitize()
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name).Scan(&there); err != nil || there {
			return err
		}
		// Rows that came while the clock was wrong move to where they belong.
		const in = "stored >= $1 AND stored < $2"
		rows, err := tx.Exec(ctx, "CREATE TEMP TABLE moved ON COMMIT DROP AS SELECT * FROM cortex.entries_default WHERE "+in, month, end)
		if err != nil {
			return err
		}
		if rows.RowsAffected() > 0 {
			if _, err := tx.Exec(ctx, "DELETE FROM cortex.entries_default WHERE "+in, month, end); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE TABLE %s PARTITION OF cortex.entries FOR VALUES FROM ('%s') TO ('%s')", name, month.Format(time.RFC3339), end.Format(time.RFC3339))); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO cortex.entries SELECT * FROM moved")
		return err
	})
	if err != nil {
		return fmt.Errorf("partition %s: %w", name, err)
	}
	if p.there == nil {
		p.there = map[time.Time]bool{}
	}
	p.there[month] = true
	return nil
}

// ahead makes the partitions of this month and the next ones.
func (p *partitions) ahead(ctx context.Context, conn *pgx.Conn, now time.Time) error {
	for i := range partitionsAhead + 1 {
		if err := p.ensure(ctx, conn, monthOf(now).AddDate(0, i, 0), now); err != nil {
			return err
		}
	}
	return nil
}

// retire drops what is older than retain: whole months of entries, and the rows of what followed from them. It returns the names of the partitions.
func (p *partitions) retire(ctx context.Context, conn *pgx.Conn, retain time.Duration, now time.Time) (dropped []string, err error) {
	before := now.Add(-retain)
	rows, err := conn.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'cortex.entries'::regclass AND c.relname ~ '^entries_\d{4}_\d{2}$' ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		month, err := time.Parse("entries_2006_01", name)
		if err != nil || month.AddDate(0, 1, 0).After(before) {
			continue
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			table := pgx.Identifier{"cortex", name}.Sanitize()
			if _, err := tx.Exec(ctx, "UPDATE cortex.logs l SET retired = greatest(retired, m.last) FROM (SELECT log, max(version) AS last FROM "+table+" GROUP BY log) m WHERE m.log = l.log"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DROP TABLE "+table)
			return err
		})
		if err != nil {
			return dropped, fmt.Errorf("drop %s: %w", name, err)
		}
		delete(p.there, month)
		dropped = append(dropped, name)
	}
	month := monthOf(before) // rows go with their month
	if _, err := conn.Exec(ctx, `WITH old AS (DELETE FROM cortex.entries_default WHERE stored < $1 RETURNING log, version)
		UPDATE cortex.logs l SET retired = greatest(retired, m.last) FROM (SELECT log, max(version) AS last FROM old GROUP BY log) m WHERE m.log = l.log`, month); err != nil {
		return dropped, err
	}
	for _, what := range []string{"turns WHERE coalesce(answered, asked)", "tasks WHERE coalesce(ended, created)", "spending WHERE spent", "conversations WHERE updated", "quarantine WHERE stored", "agent_events WHERE at", "agents WHERE gone"} {
		if _, err := conn.Exec(ctx, "DELETE FROM cortex."+what+" < $1", month); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}
