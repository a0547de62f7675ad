package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Progress is called with the progress of a measurement: what is being done, and how much of it. It must not block.
type Progress func(what string, done, total int)

func (p Progress) tell(what string, done, total int) {
	if p != nil {
		p(what, done, total)
	}
}

// Line is the measurement of turns, or of their floor, with a number of concurrent conversations. Times are in microseconds.
type Line struct {
	Case      string  `json:"case"`      // "floor" or "turn"
	Transport string  `json:"transport"` // of users and agents: "inproc" or "tcp"
	Contexts  int     `json:"contexts"`
	Turns     int     `json:"turns"` // measured
	Lost      int     `json:"lost"`  // messages without an answer
	Dup       int     `json:"dup"`   // answers beyond the first
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	PerSecond float64 `json:"per_s"`
	Stored    float64 `json:"stored_per_turn"` // messages that the server stored
}

// TurnsConfig configures Turns. Contexts is required.
type TurnsConfig struct {
	Contexts    int           // concurrent conversations
	Turns       int           // of all conversations together; 0 is 10,000, or 20 of each if that is more
	TCP         bool          // users and agents connect over TCP; the orchestrator is always in its server's process
	Delay       time.Duration // duration of each of a turn's two decisions; the fake itself takes no time
	Delegations int           // tasks of a turn, each for another agent; 0 is 1
	Limit       time.Duration // after which nothing more begins; 0 is a minute
	Progress    Progress      // nil: not called

	wait               time.Duration // for an answer
	userBus, cortexBus func(transport.Transport) transport.Transport
}

const (
	defaultLimit = time.Minute
	defaultTurns = 10_000
	defaultEach  = 20 // turns of each conversation, at least
	maxPieces    = 20
	minPerPiece  = 10 // turns of each conversation, so that the ends of a piece do not matter
	floorsATurn  = 5  // measurements of the floor per turn, which is at least this much faster
)

// Turns measures turns and their floor, on a node of its own in a temporary folder, and returns both. With a Delay there is no floor: the Line is
// zero, and the ideal is Contexts turns in two Delays. It ends early when ctx does.
func Turns(ctx context.Context, cfg TurnsConfig) (floorLine, turnLine Line, err error) {
	cfg.Delegations, cfg.Limit = max(1, cfg.Delegations), cmp.Or(cfg.Limit, defaultLimit)
	cfg.Turns = cmp.Or(cfg.Turns, max(defaultTurns, defaultEach*cfg.Contexts))
	setup := nodeConfig{tcp: cfg.TCP, workers: cfg.Delegations, decider: slow{fake.New(nil), cfg.Delay}, userBus: cfg.userBus, cortexBus: cfg.cortexBus}
	err = withNode(ctx, setup, func(n *node) error {
		floorLine, turnLine, err = n.turns(cfg)
		return err
	})
	return floorLine, turnLine, err
}

// withFolder calls f with a temporary folder, which it removes afterwards.
func withFolder(f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "cortex-bench-")
	if err != nil {
		return fmt.Errorf("temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}

// withNode calls f with a node in a temporary folder, and ends the node.
func withNode(ctx context.Context, cfg nodeConfig, f func(*node) error) error {
	return withFolder(func(dir string) error {
		cfg.dir = dir
		n, err := startNode(ctx, cfg)
		if err != nil {
			return err
		}
		return errors.Join(f(n), n.Close())
	})
}

func (n *node) turns(cfg TurnsConfig) (floorLine, turnLine Line, err error) {
	ctx := n.ctx
	users := make([]*user, cfg.Contexts)
	defer func() {
		for _, u := range users {
			if u != nil {
				u.Close()
			}
		}
	}()
	for i := range users {
		if users[i], err = n.newUser(fmt.Sprintf("bench-%d", i+1), cfg.wait); err != nil {
			return floorLine, turnLine, err
		}
	}
	f, err := newFloor(n)
	if err != nil {
		return floorLine, turnLine, err
	}
	defer f.Close()

	floors := &side{do: f.turn, width: cfg.Contexts, n: floorsATurn * cfg.Turns}
	turns := &side{width: cfg.Contexts, n: cfg.Turns, do: func(ctx context.Context, w int) (time.Duration, error) { return users[w].turn(ctx) }}
	sides, what := []*side{floors, turns}, plural(cfg.Contexts, "conversation")
	pieces := min(max(1, cfg.Turns/(minPerPiece*cfg.Contexts)), maxPieces)
	tell := func(done, total int) { cfg.Progress.tell(what, done, total) }
	cfg.Progress.tell(what, 0, 1)
	for _, s := range sides { // once each, to set up everything
		if _, err := spread(ctx, s.width, s.width, time.Now().Add(cfg.Limit), s.do); err != nil {
			return floorLine, turnLine, err
		}
	}
	before, err := n.stored(ctx)
	if err != nil {
		return floorLine, turnLine, err
	}
	if cfg.Delay > 0 { // with a single side, pieces would only add beginnings, at which all users speak at once
		sides, pieces = sides[1:], 1
		turns.do, tell = counted(turns.do, cfg.Turns, tell), func(int, int) {}
	}
	if err := interleave(ctx, pieces, cfg.Limit, tell, sides...); err != nil {
		return floorLine, turnLine, err
	}
	got, err := n.count(users)
	if err != nil {
		return floorLine, turnLine, err
	}
	after, err := n.stored(ctx)
	if err != nil {
		return floorLine, turnLine, err
	}
	if cfg.Delay == 0 {
		floorLine = newLine("floor", cfg, floors)
	}
	turnLine = newLine("turn", cfg, turns)
	turnLine.Lost, turnLine.Dup = got.lost, got.dup
	if turnLine.Turns > 0 {
		turnLine.Stored = round(float64(after-before) / float64(turnLine.Turns))
	}
	if got.wrong != "" {
		err = fmt.Errorf("%s got no right answer; the first one was told %.200q", plural(got.lost, "message"), got.wrong)
	}
	return floorLine, turnLine, err
}

// counted wraps do to report the progress.
func counted(do action, total int, tell func(done, total int)) action {
	var done atomic.Int64
	return func(ctx context.Context, worker int) (time.Duration, error) {
		took, err := do(ctx, worker)
		tell(int(done.Add(1)), total)
		return took, err
	}
}

// count waits until Cortex has done everything, and returns the results of all messages.
func (n *node) count(users []*user) (sum tally, err error) {
	if err := n.settle(); err != nil && !errors.Is(err, errLate) { // lost messages may be what is left
		return sum, err
	}
	tallies := make([]tally, len(users))
	g, ctx := errgroup.WithContext(n.ctx)
	for i, u := range users {
		g.Go(func() (err error) {
			tallies[i], err = u.tally(ctx)
			return err
		})
	}
	err = g.Wait()
	for _, t := range tallies {
		sum.add(t)
	}
	return sum, err
}

func newLine(name string, cfg TurnsConfig, s *side) Line {
	l := Line{
		Case: name, Transport: "inproc", Contexts: cfg.Contexts, Turns: len(s.sample.latencies),
		P50: round(s.sample.quantile(0.5)), P99: round(s.sample.quantile(0.99)), PerSecond: round(s.sample.perSecond()),
	}
	if cfg.TCP {
		l.Transport = "tcp"
	}
	return l
}

// round rounds to two decimals.
func round(x float64) float64 { return math.Round(100*x) / 100 }

// slow is a decider with a delay, as a model has.
type slow struct {
	llm.Decider
	delay time.Duration
}

// Decide implements [llm.Decider].
func (s slow) Decide(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	if s.delay > 0 {
		if err := rest.For(ctx, s.delay); err != nil {
			return nil, err
		}
	}
	return s.Decider.Decide(ctx, t, stream)
}

// Computes implements [llm.Computing].
func (s slow) Computes() bool { return s.delay == 0 }
