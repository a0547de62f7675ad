package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// maxNamed bounds the versions that a Report names.
const maxNamed = 100

// Report says how complete a mirror is.
type Report struct {
	Created    time.Time `json:"log_created"`
	Last       int64     `json:"last"`       // version of the last record of the log
	Position   int64     `json:"position"`   // the mirror has everything up to this version
	Behind     int64     `json:"behind"`     // entries of the log after the position
	Entries    int64     `json:"entries"`    // of the log, up to the position, without those that were retired
	Mirrored   int64     `json:"mirrored"`   // rows of entries, likewise
	Retired    int64     `json:"retired"`    // entries of the log that the mirror has dropped since, because they are old
	Quarantine int64     `json:"quarantine"` // rows of entries that cannot be read
	// What is wrong: entries that are missing, rows that the log has not, and rows that are of another entry than the log's, each with the number, and
	// some of the versions.
	Missing   Versions `json:"missing"`
	Extra     Versions `json:"extra"`
	Different Versions `json:"different"`
	// Rows that do not follow from the entries as they are, see derived.
	MissingRows Rows `json:"missing_rows"`
	ExtraRows   Rows `json:"extra_rows"`
}

// Versions are versions of entries.
type Versions struct {
	Count int64   `json:"count"`
	Some  []int64 `json:"versions"` // at most 100
}

func (v *Versions) add(version int64) {
	if v.Count++; len(v.Some) < maxNamed {
		v.Some = append(v.Some, version)
	}
}

// Complete reports whether the mirror has what the log has, and nothing else.
func (r *Report) Complete() bool {
	return r.Behind == 0 && r.Missing.Count == 0 && r.Extra.Count == 0 && r.Different.Count == 0 && r.MissingRows.Count == 0 && r.ExtraRows.Count == 0
}

// Check compares the database of o with the log of store, entry by entry: that each is there once, with the checksum and the words that it has in the log now,
// and that there are rows of what follows from them. While the mirror is
// not complete, it waits and looks again, up to wait: entries that the log has erased are rows for a while. The error wraps [transport.ErrUnavailable] or is one of PostgreSQL; one without
// either says that the database has no mirror of the log. It reads the whole log, and changes nothing.
func Check(ctx context.Context, store Store, o *Options, wait time.Duration) (*Report, error) {
	db, err := parse(o.Postgres)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; {
		began := time.Now()
		pause := func() time.Duration { return max(100*time.Millisecond, time.Since(began)) }
		last := sync.OnceValue(func() bool { return time.Now().Add(pause()).After(end) })
		r, err := check(ctx, store, db, time.Until(end), last)
		if err != nil || r.Complete() || last() {
			return r, hide(db, err)
		}
		if rest.For(ctx, pause()) != nil {
			return nil, ctx.Err()
		}
	}
}

// check looks once. Unless it is the last time, it leaves out what takes long when the mirror is not complete anyway.
func check(ctx context.Context, store Store, db *pgx.ConnConfig, wait time.Duration, last func() bool) (*Report, error) {
	info, err := store.Journal(ctx)
	if err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	r := &Report{Created: info.Created, Last: int64(info.Last)} //nolint:gosec // a sequence
	conn, err := pgx.ConnectConfig(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	defer closeConn(ctx, conn)
	behind, err := awaitPosition(ctx, conn, info.Name, r, store, wait)
	if err != nil {
		return nil, err
	}
	r.Behind = behind
	// Of one moment, while the mirror goes on.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it ends with the connection
	var id, retired int64
	if err := tx.QueryRow(ctx, "SELECT log, position, retired FROM cortex.logs WHERE name = $1 AND created = $2", info.Name, info.Created.Format(time.RFC3339Nano)).Scan(&id, &r.Position, &retired); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM cortex.quarantine WHERE log = $1", id).Scan(&r.Quarantine); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	rows := &rowReader{tx: tx, log: id, at: retired}
	return r, r.compare(ctx, store, rows, retired, last)
}

// awaitPosition waits until the position is the log's last version, for at most wait, and returns how many entries there are after it.
func awaitPosition(ctx context.Context, conn *pgx.Conn, name string, r *Report, store Store, wait time.Duration) (int64, error) {
	for end := time.Now().Add(wait); ; {
		err := conn.QueryRow(ctx, "SELECT position FROM cortex.logs WHERE name = $1 AND created = $2", name, r.Created.Format(time.RFC3339Nano)).Scan(&r.Position)
		switch late := time.Now().After(end); {
		case errors.Is(err, pgx.ErrNoRows) && late, isAbsent(err) && late:
			return 0, errNoMirror
		case errors.Is(err, pgx.ErrNoRows), isAbsent(err):
		case err != nil:
			return 0, fmt.Errorf("PostgreSQL: %w", err)
		default:
			left, err := countAfter(ctx, store, r.Position, r.Last)
			if left == 0 || late || err != nil {
				return left, err
			}
		}
		if rest.For(ctx, 100*time.Millisecond) != nil {
			return 0, ctx.Err()
		}
	}
}

// countAfter returns how many entries the log has after a version, up to last.
func countAfter(ctx context.Context, store Store, after, last int64) (n int64, err error) {
	for after < last {
		some, err := store.Records(ctx, conversation.Version(after)) //nolint:gosec // a sequence
		if err != nil || len(some) == 0 {
			return n, err
		}
		for i := range some {
			if after = int64(some[i].Version); after <= last { //nolint:gosec // a sequence
				n++
			}
		}
	}
	return n, nil
}

// compare goes through the log and the rows, both in the order of their versions.
func (r *Report) compare(ctx context.Context, store Store, rows *rowReader, retired int64, last func() bool) error {
	bodies := &bodyReader{tx: rows.tx, log: rows.log}
	derived := &derivedReader{tx: rows.tx, log: rows.log, position: r.Position, retired: retired, folder: &folder{store: store}, seen: map[conversation.Key]bool{}}
	row, more, err := rows.next(ctx)
	if err != nil {
		return err
	}
	for after := int64(0); after < r.Position; {
		some, err := store.Records(ctx, conversation.Version(after)) //nolint:gosec // a sequence
		if err != nil {
			return fmt.Errorf("the log: %w", err)
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			after = int64(some[i].Version) //nolint:gosec // a sequence
			if after > r.Position {
				break
			}
			if len(some[i].Erased) > 0 {
				continue
			}
			if after <= retired {
				r.Retired++
				continue
			}
			r.Entries++
			derived.see(&some[i])
			for ; more && row.Version < after; row, more, err = rows.next(ctx) {
				r.Mirrored++
				r.Extra.add(row.Version)
			}
			switch {
			case err != nil:
				return err
			case !more || row.Version > after:
				r.Missing.add(after)
				continue
			case row.Sum != int64(some[i].Sum):
				r.Different.add(after)
			default:
				if err := bodies.add(ctx, r, &some[i]); err != nil {
					return err
				}
			}
			r.Mirrored++
			if row, more, err = rows.next(ctx); err != nil {
				return err
			}
		}
	}
	for ; more; row, more, err = rows.next(ctx) {
		r.Mirrored++
		r.Extra.add(row.Version)
	}
	if err != nil {
		return err
	}
	if err := bodies.compare(ctx, r); err != nil {
		return err
	}
	if !r.Complete() && !last() {
		return nil
	}
	return derived.compare(ctx, r)
}

// mirroredRow is the version and the checksum of an entry's row.
type mirroredRow struct{ Version, Sum int64 }

// rowReader reads the rows of a log's entries in the order of their versions.
type rowReader struct {
	tx    pgx.Tx
	log   int64
	at    int64
	batch []mirroredRow
}

// rowsAtOnce is how many rows a rowReader has at a time.
const rowsAtOnce = 5000

// next returns the next row; more is false at the end.
func (r *rowReader) next(ctx context.Context) (row mirroredRow, more bool, err error) {
	if len(r.batch) == 0 {
		rows, err := r.tx.Query(ctx, "SELECT version, sum FROM cortex.entries WHERE log = $1 AND version > $2 ORDER BY version LIMIT $3", r.log, r.at, rowsAtOnce)
		if err != nil {
			return row, false, fmt.Errorf("PostgreSQL: %w", err)
		}
		if r.batch, err = pgx.CollectRows(rows, pgx.RowToStructByPos[mirroredRow]); err != nil {
			return row, false, fmt.Errorf("PostgreSQL: %w", err)
		}
		if len(r.batch) == 0 {
			return row, false, nil
		}
	}
	row, r.batch = r.batch[0], r.batch[1:]
	r.at = row.Version
	return row, true, nil
}
