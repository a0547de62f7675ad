package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// The pauses of a mirror.
const (
	firstPause  = 250 * time.Millisecond // after a failure
	maxPause    = 15 * time.Second
	standbyStep = time.Second            // between two attempts to take over
	idleFirst   = 20 * time.Millisecond  // between two looks at a log without news
	idleMost    = 250 * time.Millisecond // likewise, after many looks

	silentAfter = txTimeout + 30*time.Second // without an answer of the database
)

// Mirror copies a log to a database. Make one with [New].
type Mirror struct {
	store Store
	opts  Options
	db    *pgx.ConnConfig
	log   *slog.Logger

	mu   sync.Mutex
	told map[string]bool // why the mirror waits, see reasonOf
}

// New returns a Mirror of store. It does not connect yet. store must not be nil, and o must name a database.
func New(store Store, o *Options) (*Mirror, error) {
	m := &Mirror{store: store, opts: *o, log: o.Logger, told: map[string]bool{}}
	m.log = cmp.Or(m.log, slog.New(slog.DiscardHandler))
	if m.opts.Ready == nil {
		m.opts.Ready = func() {}
	}
	if m.opts.Waits == nil {
		m.opts.Waits = func(error) {}
	}
	if m.opts.now == nil {
		m.opts.now = time.Now
	}
	var err error
	m.db, err = parse(o.Postgres)
	return m, err
}

// Run copies the log until ctx ends, and then returns nil. When the database or the log is away, it waits, with growing pauses, and goes on. It returns an
// error that is permanent, see [transport.IsPermanent], when it cannot go on: the database is too old, or has the schema of a newer program.
func (m *Mirror) Run(ctx context.Context) error {
	pauses := &backoff.ExponentialBackOff{InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.25}
	for {
		began := time.Now()
		err := hide(m.db, m.once(ctx))
		switch {
		case ctx.Err() != nil:
			return nil
		case transport.IsPermanent(err):
			return err
		case errors.Is(err, errMoved), errors.Is(err, errLogChanged):
			m.log.Info("the mirror begins again", "reason", err.Error())
		default:
			m.waits(err)
		}
		if time.Since(began) > maxPause {
			pauses.Reset()
		}
		if rest.For(ctx, pauses.NextBackOff()) != nil {
			return nil
		}
	}
}

// waits tells why the mirror waits.
func (m *Mirror) waits(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opts.Waits(fmt.Errorf("%s: %w", where(m.db), err))
	if !m.told[reasonOf(err)] && len(m.told) < maxReasons {
		m.told[reasonOf(err)] = true
		m.log.Warn("the mirror waits, and goes on when it can", "postgres", where(m.db), "err", err.Error())
	}
}

// waited reports whether waits has told something that has not ended.
func (m *Mirror) waited() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.told) > 0
}

// goesOn tells that the mirror does not wait any more.
func (m *Mirror) goesOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.told) == 0 {
		return
	}
	clear(m.told)
	m.opts.Waits(nil)
	m.log.Info("the mirror goes on")
}

// errSilent is why a mirror waits without an error. Not all that it asks has a bound: a migration may take long.
var errSilent = errors.New("PostgreSQL does not answer, as when somebody has locked its tables or its disk hangs")

// listen tells when the mirror gets no further, until end is called. Whoever gets further calls alive.
func (m *Mirror) listen() (alive, end func()) {
	beats, done := make(chan struct{}, 1), make(chan struct{})
	patience := cmp.Or(m.opts.patience, silentAfter)
	go func() {
		silent, told := time.NewTimer(patience), false
		defer silent.Stop()
		for {
			select {
			case <-silent.C:
				m.waits(errSilent)
				told = true
			case <-done:
				return
			case <-beats:
				if told { // it may have nothing to copy
					m.goesOn()
				}
				told = false
			}
			silent.Reset(patience)
		}
	}()
	alive = func() {
		select {
		case beats <- struct{}{}:
		default:
		}
	}
	return alive, func() { close(done) }
}

// maxReasons bounds how many reasons are told of one pause.
const maxReasons = 8

// reasonOf returns the SQLSTATE of what PostgreSQL refuses, which somebody has to mend; "" for an error of another kind, as when it is away, stops or starts.
func reasonOf(err error) string {
	code := codeOf(err)
	if strings.HasPrefix(code, "57") || strings.HasPrefix(code, "08") {
		return ""
	}
	return code
}

// once copies the log until an error.
func (m *Mirror) once(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, m.db.Copy())
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	defer closeConn(ctx, conn)
	alive, end := m.listen()
	defer end()
	if err := migrate(ctx, conn); err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	c := &copier{
		store: m.store, conn: conn, log: m.log, content: !m.opts.NoContent, retain: m.opts.Retain,
		folder: folder{store: m.store, content: !m.opts.NoContent}, now: m.opts.now, again: m.waited(), alive: alive,
		works: func() {
			alive()
			m.goesOn()
		},
	}
	if err := c.open(ctx, m.opts.Ready); err != nil {
		return err
	}
	m.opts.Ready()
	return m.beside(ctx, c)
}

// closeConn closes a connection, within a bounded time.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	conn.Close(ctx) //nolint:errcheck // it has no more use
}
