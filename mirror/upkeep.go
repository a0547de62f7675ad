package mirror

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// erasedFor is how long an entry that is said to be erased is looked at. A deletion that was interrupted is finished within seconds of the next start, and says
// so again; and some versions are said ahead, which then are those of others.
const erasedFor = time.Hour

// clocksDiffer is how much is told.
const clocksDiffer = 10 * time.Minute

// maxErasing bounds the entries that are looked at in one transaction.
const maxErasing = 1000

// beside does what is due beside copying.
func (c *copier) beside(ctx context.Context) error {
	if c.erasing && c.now().Sub(c.erased) >= c.erasures {
		if err := c.erase(ctx); err != nil {
			return err
		}
		c.erased = c.now()
	}
	if c.now().Sub(c.kept) >= keepEvery {
		return c.keep(ctx)
	}
	return nil
}

// erase deletes the entries that the log has said to erase, and which are gone there.
func (c *copier) erase(ctx context.Context) error {
	after, gone := int64(0), 0
	waits := false
	for {
		rows, err := c.conn.Query(ctx, "SELECT version FROM cortex.erasing WHERE log = $1 AND version > $2 AND version <= $3 ORDER BY version LIMIT $4", c.id, after, c.seen, maxErasing)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		if len(versions) == 0 {
			break
		}
		c.alive()
		after = versions[len(versions)-1]
		n := len(versions)
		if versions, err = c.gone(ctx, versions); err != nil {
			return fmt.Errorf("the log: %w", err)
		}
		waits = waits || len(versions) < n
		if len(versions) == 0 {
			continue
		}
		err = c.change(ctx, func(tx pgx.Tx) error {
			deleted, err := remove(ctx, tx, c.id, versions, c.refold(ctx))
			if err != nil {
				return err
			}
			gone += int(deleted)
			_, err = tx.Exec(ctx, "DELETE FROM cortex.erasing WHERE log = $1 AND version = ANY($2)", c.id, versions)
			return err
		})
		if err != nil {
			c.folder.forget()
			return fmt.Errorf("delete what is erased from the log: %w", err)
		}
	}
	if gone > 0 {
		c.log.Info("deleted what is erased from the log", "entries", gone)
	}
	if _, err := c.conn.Exec(ctx, "DELETE FROM cortex.erasing WHERE log = $1 AND said < now() - $2::interval", c.id, erasedFor); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	c.erasing = waits || c.unseen(ctx)
	if c.erasures = eraseEvery; gone == 0 {
		c.erasures = eraseIdle
	}
	return nil
}

// unseen reports whether entries are said to be erased that have not come yet.
func (c *copier) unseen(ctx context.Context) bool {
	var some bool
	err := c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM cortex.erasing WHERE log = $1)", c.id).Scan(&some)
	return err != nil || some
}

// gone returns those of versions that the log does not have.
func (c *copier) gone(ctx context.Context, versions []int64) (gone []int64, err error) {
	for _, v := range versions {
		_, there, err := c.store.Record(ctx, conversation.Version(v)) //nolint:gosec // a sequence
		if err != nil {
			return nil, err
		}
		if !there {
			gone = append(gone, v)
		}
	}
	return slices.Clip(gone), nil
}

// keep makes the partitions that are needed next, and drops what is too old.
func (c *copier) keep(ctx context.Context) error {
	now := c.now()
	if err := c.parts.ahead(ctx, c.conn, now); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if c.retain > 0 {
		earliest, err := c.earliest(ctx, now)
		if err != nil {
			return err
		}
		dropped, err := c.parts.retire(ctx, c.conn, c.retain, earliest)
		if err != nil {
			return fmt.Errorf("PostgreSQL: drop what is too old: %w", err)
		}
		if len(dropped) > 0 {
			c.log.Info("dropped what is too old", "partitions", dropped, "retain", c.retain)
		}
	}
	c.kept = now
	return nil
}

// earliest returns the time by which rows are too old: the earliest of now, PostgreSQL's clock and that of the store. What one wrong clock drops
// nothing brings back.
func (c *copier) earliest(ctx context.Context, now time.Time) (time.Time, error) {
	var postgres, store time.Time
	if err := c.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&postgres); err != nil {
		return time.Time{}, fmt.Errorf("PostgreSQL: %w", err)
	}
	if by, ok := c.store.(storage.Clock); ok {
		var err error
		if store, _, err = by.Clock(ctx); err != nil {
			return time.Time{}, fmt.Errorf("the log: %w", err)
		}
	}
	first := now
	for whose, at := range map[string]time.Time{"PostgreSQL": postgres, "the store's server": store} {
		if at.IsZero() {
			continue
		}
		if by := now.Sub(at); by.Abs() >= clocksDiffer {
			c.log.Warn("clocks differ: what is too old is dropped by the earliest of them; set the wrong one right", "now", now, "other", at, "of", whose)
		}
		if at.Before(first) {
			first = at
		}
	}
	return first, nil
}
