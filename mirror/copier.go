package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// errLogChanged means that the log is another one than before, or has lost its end.
var errLogChanged = errors.New("the log was made anew, or has lost its end")

// The bounds of a transaction.
const (
	maxRecords = 2048
	maxBytes   = 4 << 20
)

// busy is how many entries mean that more have come meanwhile. After fewer, the copier waits for linger, so that a transaction has more than one turn.
const (
	busy   = 128
	linger = 50 * time.Millisecond
)

// The intervals of what a copier does beside copying.
const (
	eraseEvery = 200 * time.Millisecond // looks for erased entries, when some are announced
	eraseIdle  = 5 * time.Second        // likewise, when nothing was gone
	keepEvery  = time.Hour              // partitions and retention
	lookEvery  = 2 * time.Second        // at a log without news
)

// copier copies one log over one connection. It is not safe for concurrent use.
type copier struct {
	store   Store
	conn    *pgx.Conn
	log     *slog.Logger
	content bool
	retain  time.Duration
	folder  folder
	parts   partitions
	now     func() time.Time
	again   bool   // this is another attempt, of which little is said
	works   func() // called after each success in copying
	alive   func() // called after each answer of the database, at least

	info     storage.JournalInfo
	id       int64 // of the log in the database
	position int64 // as in the database
	seen     int64 // nothing is between the position and this version
	erasing  bool  // erased entries may be here
	erased   time.Time
	erasures time.Duration // the pause until the next look
	kept     time.Time
	looked   time.Time
}

// open takes over the log: it waits while another mirror has it, and finds the position. It calls ready when it has to wait.
func (c *copier) open(ctx context.Context, ready func()) error {
	var err error
	if c.info, err = c.store.Journal(ctx); err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	created := c.info.Created.Format(time.RFC3339Nano)
	told := false
	for {
		var mine bool
		if err := c.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockOf(c.info.Name, created)).Scan(&mine); err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		c.alive()
		if mine {
			break
		}
		if !told {
			told = true
			ready()
			c.log.Info("another mirror copies this log: this one stands by")
		}
		if err := rest.For(ctx, standbyStep); err != nil {
			return err
		}
	}
	if err := c.register(ctx, created); err != nil {
		return err
	}
	c.alive()
	if err := c.rewind(ctx); err != nil {
		return err
	}
	c.alive()
	if err := c.keep(ctx); err != nil {
		return err
	}
	c.alive()
	c.seen, c.erasing, c.erasures = c.position, true, eraseEvery
	level := slog.LevelInfo
	if c.again {
		level = slog.LevelDebug
	}
	c.log.Log(ctx, level, "mirroring the log", "created", created, "position", c.position, "behind", max(0, int64(c.info.Last)-c.position)) //nolint:gosec // a sequence
	return nil
}

// register finds the log in the database, or adds it.
func (c *copier) register(ctx context.Context, created string) error {
	added, err := c.conn.Exec(ctx, "INSERT INTO cortex.logs (name, created) VALUES ($1, $2) ON CONFLICT DO NOTHING", c.info.Name, created)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := c.conn.QueryRow(ctx, "SELECT log, position FROM cortex.logs WHERE name = $1 AND created = $2", c.info.Name, created).Scan(&c.id, &c.position); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	var others int64
	if err := c.conn.QueryRow(ctx, "SELECT count(*) FROM cortex.logs WHERE log <> $1", c.id).Scan(&others); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if added.RowsAffected() == 1 && others > 0 {
		c.log.Warn("the log is another one than before: it is mirrored from its beginning, and what was mirrored of others stays", "log", c.id, "others", others)
	}
	return nil
}

// forward moves the position to the last row. Rows and position are written together, so somebody has set it back; without this, the rows would be in the way
// of the same ones for ever. Rows that are missing before the last one are told by [Check].
func (c *copier) forward(ctx context.Context) error {
	var last int64
	err := c.conn.QueryRow(ctx, `SELECT greatest((SELECT max(version) FROM cortex.entries WHERE log = $1), (SELECT max(version) FROM cortex.quarantine WHERE log = $1), $2)`,
		c.id, c.position).Scan(&last)
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	if last == c.position {
		return nil
	}
	err = c.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE cortex.logs SET position = $2, updated = now() WHERE log = $1", c.id, last)
		return err
	})
	if err != nil {
		return fmt.Errorf("PostgreSQL: go on to version %d: %w", last, err)
	}
	c.log.Warn("the position of the mirror was set back: it goes on after its last row; `cortex mirror check` tells whether rows are missing", "from", last, "was", c.position)
	c.position = last
	return nil
}

// rewind goes back to the last entry that log and mirror have in common, when the log has lost its end, as after a power failure, and has perhaps gone
// on otherwise. It deletes what the log does not have.
func (c *copier) rewind(ctx context.Context) error {
	if err := c.forward(ctx); err != nil {
		return err
	}
	good, differs := int64(0), c.position > int64(c.info.Last) //nolint:gosec // a sequence
	for below := c.position + 1; ; {
		rows, err := c.conn.Query(ctx, "SELECT version, sum FROM cortex.entries WHERE log = $1 AND version < $2 ORDER BY version DESC LIMIT 64", c.id, below)
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[mirroredRow])
		if err != nil {
			return fmt.Errorf("PostgreSQL: %w", err)
		}
		if len(all) == 0 {
			break
		}
		c.alive()
		for _, row := range all {
			below = row.Version
			if row.Version > int64(c.info.Last) { //nolint:gosec // a sequence
				differs = true
				continue
			}
			r, ok, err := c.store.Record(ctx, conversation.Version(row.Version)) //nolint:gosec // a sequence
			if err != nil {
				return fmt.Errorf("the log: %w", err)
			}
			if ok && int64(r.Sum) == row.Sum {
				good = row.Version
				break
			}
			differs = differs || ok
		}
		if good > 0 {
			break
		}
	}
	if !differs {
		return nil
	}
	from := c.position
	err := c.change(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT version FROM cortex.entries WHERE log = $1 AND version > $2", c.id, good)
		if err != nil {
			return err
		}
		lost, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE cortex.logs SET position = $2, updated = now() WHERE log = $1", c.id, good); err != nil {
			return err
		}
		c.position = good
		_, err = remove(ctx, tx, c.id, lost, c.refold(ctx))
		return err
	})
	if err != nil {
		c.position = from
		return fmt.Errorf("PostgreSQL: go back to version %d: %w", good, err)
	}
	c.log.Warn("the log has lost entries that were mirrored: they are deleted here, and the log is mirrored again from there", "from", good, "was", from)
	return nil
}

// change changes rows in a transaction, if the position is still that of c.
func (c *copier) change(ctx context.Context, f func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, txTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		var at int64
		if err := tx.QueryRow(ctx, "SELECT position FROM cortex.logs WHERE log = $1 FOR UPDATE", c.id).Scan(&at); err != nil {
			return err
		}
		if at != c.position {
			return errMoved
		}
		return f(tx)
	})
}

// refold returns a function that folds a conversation up to the position. It forgets what was folded before.
func (c *copier) refold(ctx context.Context) func(conversation.Key) (*projection, error) {
	return func(k conversation.Key) (*projection, error) {
		c.folder.folds.Take(k)
		p := newProjection()
		_, err := c.folder.load(ctx, k, conversation.Version(c.position)+1, p) //nolint:gosec // a sequence
		return p, err
	}
}

// copy copies until an error.
func (c *copier) copy(ctx context.Context) error {
	idle := idleFirst
	var next <-chan read
	for {
		if next == nil {
			next = c.readAhead(ctx, c.seen)
		}
		var r read
		select {
		case r = <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
		next = nil
		if r.err != nil {
			return fmt.Errorf("the log: %w", r.err)
		}
		if len(r.records) == 0 {
			var err error
			if r.records, err = c.look(ctx); err != nil {
				return err
			}
		}
		if len(r.records) > 0 {
			idle = idleFirst
			if len(r.records) >= busy {
				next = c.readAhead(ctx, int64(r.records[len(r.records)-1].Version)) //nolint:gosec // a sequence
			}
			if err := c.put(ctx, r.records); err != nil {
				c.folder.forget()
				return err
			}
			c.seen = c.position
		}
		if err := c.beside(ctx); err != nil {
			return err
		}
		c.works()
		if next != nil {
			continue
		}
		pause := linger
		if len(r.records) == 0 {
			pause, idle = idle, min(2*idle, idleMost)
		}
		if err := rest.For(ctx, pause); err != nil {
			return err
		}
	}
}

// read is what was read of the log.
type read struct {
	records []storage.Record
	err     error
}

// readAhead reads what one transaction writes, while the one before it is written.
func (c *copier) readAhead(ctx context.Context, after int64) <-chan read {
	done := make(chan read, 1)
	go func() {
		var r read
		for size := 0; len(r.records) < maxRecords && size < maxBytes; {
			some, err := c.store.Records(ctx, conversation.Version(after)) //nolint:gosec // a sequence
			if err != nil {
				r = read{err: err}
				break
			}
			if len(some) == 0 {
				break
			}
			for i := range some {
				size += len(some[i].Data)
			}
			r.records = append(r.records, some...)
			after = int64(some[len(some)-1].Version) //nolint:gosec // a sequence
		}
		if len(r.records) > 0 { // if the log was made anew meanwhile, they may be of another one
			if now, err := c.store.Journal(ctx); err != nil {
				r = read{err: err}
			} else if !now.Created.Equal(c.info.Created) || int64(now.Last) < after { //nolint:gosec // a sequence
				r = read{err: errLogChanged}
			}
		}
		done <- r
	}()
	return done
}

// look checks, now and then, a log that has no news: whether it is still the same, and whether it ends with entries that are erased, over which c steps. It
// returns the next record, if there is one after all.
func (c *copier) look(ctx context.Context) ([]storage.Record, error) {
	if c.now().Sub(c.looked) < lookEvery {
		return nil, nil
	}
	c.looked = c.now()
	info, err := c.store.Journal(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the log: %w", err)
	case !info.Created.Equal(c.info.Created) || int64(info.Last) < c.position: //nolint:gosec // a sequence
		return nil, errLogChanged
	}
	for v := c.seen + 1; v <= int64(info.Last); v++ { //nolint:gosec // a sequence
		r, ok, err := c.store.Record(ctx, conversation.Version(v)) //nolint:gosec // a sequence
		if err != nil {
			return nil, fmt.Errorf("the log: %w", err)
		}
		if ok {
			return []storage.Record{r}, nil
		}
		c.seen = v
	}
	return nil, nil
}

// put writes records and what follows from them. If PostgreSQL refuses something in them, it writes them one by one.
func (c *copier) put(ctx context.Context, records []storage.Record) error {
	err := c.write(ctx, records, "")
	if err == nil || !isRefusal(err) {
		return err
	}
	for i := range records {
		one := records[i : i+1]
		err := c.write(ctx, one, "")
		if err != nil && isRefusal(err) {
			err = c.write(ctx, one, "PostgreSQL refuses it: "+err.Error())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes records in one transaction. With a reason, there is one record, which goes to the quarantine, without what follows from it.
func (c *copier) write(ctx context.Context, records []storage.Record, reason string) error {
	b := &batch{
		log: c.id, from: c.position, to: int64(records[len(records)-1].Version), //nolint:gosec // a sequence
		rows: newProjection(), withBody: c.content && reason == "", content: c.content,
	}
	for i := range records {
		r := &records[i]
		if len(r.Erased) > 0 {
			for _, v := range r.Erased {
				b.erased = append(b.erased, int64(v)) //nolint:gosec // a sequence
			}
			c.erasing, c.erasures = true, eraseEvery
			continue
		}
		if err := c.parts.ensure(ctx, c.conn, dated(r.Stored), c.now()); err != nil {
			return err
		}
		b.records = append(b.records, r)
		why := r.Damage
		if reason != "" {
			why = reason
		}
		if why != "" {
			b.quarantine = append(b.quarantine, quarantineRow{r, why})
		}
		if reason == "" {
			if err := c.folder.add(ctx, r, b.rows); err != nil {
				return fmt.Errorf("the log: %w", err)
			}
		}
	}
	if err := write(ctx, c.conn, b); err != nil {
		c.folder.forget()
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	c.alive()
	c.position = b.to
	for _, q := range b.quarantine {
		c.log.Error("an entry of the log is in quarantine: it cannot be read", "version", int64(q.record.Version), "tenant", q.record.Tenant, "context_id", q.record.ContextID, "reason", q.reason) //nolint:gosec // a sequence
	}
	return nil
}
