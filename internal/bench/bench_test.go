package bench

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// soon is the wait for an answer where answers are lost. A slower answer is late then, but not lost.
const soon = 200 * time.Millisecond

func TestTurns(t *testing.T) {
	for name, cfg := range map[string]TurnsConfig{
		"inproc": {Contexts: 2, Turns: 41},
		"tcp":    {Contexts: 1, Turns: 5, TCP: true},
		"tasks":  {Contexts: 2, Turns: 5, Delegations: 3},
	} {
		t.Run(name, func(t *testing.T) {
			folder := temporary(t)
			told := 0
			cfg.Progress = func(what string, done, total int) {
				if told++; done > total || what != map[int]string{1: "1 conversation", 2: "2 conversations"}[cfg.Contexts] {
					t.Errorf("progress of %q %d of %d", what, done, total)
				}
			}
			floor, turn, err := Turns(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			transport := "inproc"
			if cfg.TCP {
				transport = "tcp"
			}
			for _, l := range []struct {
				name  string
				got   Line
				turns int
			}{{"floor", floor, 5 * cfg.Turns}, {"turn", turn, cfg.Turns}} {
				g := l.got
				if g.Case != l.name || g.Transport != transport || g.Contexts != cfg.Contexts || g.Turns != l.turns || g.Lost != 0 || g.Dup != 0 {
					t.Errorf("%s = %+v, want %d turns, none lost or twice", l.name, g, l.turns)
				}
				if g.P50 <= 0 || g.P99 < g.P50 || g.PerSecond <= 0 {
					t.Errorf("%s = %+v, want times", l.name, g)
				}
			}
			// The message, two entries, and a task and a result of each delegation, at least.
			if least := float64(3 + 2*max(1, cfg.Delegations)); turn.Stored < least || floor.Stored != 0 {
				t.Errorf("stored %v and %v a turn, want at least %v and 0", turn.Stored, floor.Stored, least)
			}
			if told < 2 {
				t.Errorf("progress was told %d times", told)
			}
			empty(t, folder)
		})
	}
}

func TestDelayHasNoFloor(t *testing.T) {
	temporary(t)
	cfg := TurnsConfig{Contexts: 4, Turns: 8, Delay: 10 * time.Millisecond}
	floor, turn, err := Turns(t.Context(), cfg)
	if err != nil || floor != (Line{}) || turn.Turns != 8 || turn.Lost+turn.Dup != 0 {
		t.Fatalf("Turns = %+v, %+v, %v", floor, turn, err)
	}
	if turn.P50 < micros(2*cfg.Delay) {
		t.Errorf("p50 is %v µs, want two delays at least", turn.P50)
	}
}

// breaking replaces the events that are published on a bus by those that publish returns.
type breaking struct {
	transport.Transport
	publish func(t transport.Topic, e *transport.Event) []*transport.Event
}

func (b breaking) Publish(ctx context.Context, t transport.Topic, e *transport.Event) error {
	for _, e := range b.publish(t, e) {
		if err := b.Transport.Publish(ctx, t, e); err != nil {
			return err
		}
	}
	return nil
}

func broken(f func(t transport.Topic, e *transport.Event) []*transport.Event) func(transport.Transport) transport.Transport {
	return func(tr transport.Transport) transport.Transport { return breaking{tr, f} }
}

func isAnswer(t transport.Topic, e *transport.Event) bool {
	_, ok := e.Payload.(*a2a.Message)
	return ok && t.Kind == transport.KindLive
}

// TestWhatIsLostIsCounted loses messages and answers, and checks the counts. One turn of each conversation is counted, but not measured.
func TestWhatIsLostIsCounted(t *testing.T) {
	var third atomic.Int64
	for name, test := range map[string]struct {
		cfg       TurnsConfig
		lost, dup int
		err       bool
	}{
		"a message that is not sent is lost": {
			cfg: TurnsConfig{userBus: broken(func(_ transport.Topic, e *transport.Event) []*transport.Event {
				if third.Add(1) == 3 {
					return nil
				}
				return []*transport.Event{e}
			})},
			lost: 1,
		},
		"an answer that is shown twice": {
			cfg: TurnsConfig{cortexBus: broken(func(t transport.Topic, e *transport.Event) []*transport.Event {
				if isAnswer(t, e) {
					return []*transport.Event{e, e}
				}
				return []*transport.Event{e}
			})},
			dup: 2 + 4,
		},
		"an answer that is not shown is in the log": {
			cfg: TurnsConfig{cortexBus: broken(func(t transport.Topic, e *transport.Event) []*transport.Event {
				if isAnswer(t, e) {
					return nil
				}
				return []*transport.Event{e}
			})},
		},
		"an answer that is neither shown nor in the log in time": {
			cfg: TurnsConfig{wait: time.Nanosecond, cortexBus: broken(func(t transport.Topic, e *transport.Event) []*transport.Event {
				if isAnswer(t, e) {
					return nil
				}
				return []*transport.Event{e}
			})},
		},
		"a wrong answer is none": {
			cfg: TurnsConfig{cortexBus: broken(func(t transport.Topic, e *transport.Event) []*transport.Event {
				if m, ok := e.Payload.(*a2a.Message); ok && t.ID == workerID(0) {
					c, other := *e, *m
					other.Parts = a2a.ContentParts{a2a.NewTextPart("something else")}
					c.Payload = &other
					return []*transport.Event{&c}
				}
				return []*transport.Event{e}
			})},
			lost: 2 + 4, err: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			temporary(t)
			test.cfg.Contexts, test.cfg.Turns, test.cfg.wait = 2, 4, cmp.Or(test.cfg.wait, soon)
			_, turn, err := Turns(t.Context(), test.cfg)
			if turn.Lost != test.lost || turn.Dup != test.dup || (err != nil) != test.err {
				t.Errorf("Turns = %d lost, %d twice, error %v; want %d and %d", turn.Lost, turn.Dup, err, test.lost, test.dup)
			}
		})
	}
}

// TestInterruption interrupts a measurement: nothing is left behind.
func TestInterruption(t *testing.T) {
	folder := temporary(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, _, err := Turns(ctx, TurnsConfig{Contexts: 4, Turns: 1_000_000, Limit: time.Hour, Progress: func(string, int, int) { cancel(why) }})
	if !errors.Is(err, why) {
		t.Errorf("Turns = %v, want %v", err, why)
	}
	empty(t, folder)
}

// TestCaseWithoutTime leaves no time for a case: it has rows, and no figures of nothing.
func TestCaseWithoutTime(t *testing.T) {
	folder := temporary(t)
	rows := 0
	figures, err := Cases(t.Context(), CasesConfig{Only: []string{"one"}, Limit: time.Nanosecond, Row: func(r Row) {
		if rows++; r.Turns != 0 {
			t.Errorf("%d turns of %s", r.Turns, r.Name)
		}
	}})
	if err != nil || len(figures) != 0 || rows == 0 {
		t.Errorf("Cases = %+v, %v after %d rows", figures, err, rows)
	}
	empty(t, folder)
}

func TestHistory(t *testing.T) {
	temporary(t)
	figures, err := History(t.Context(), HistoryConfig{Entries: 100})
	if err != nil {
		t.Fatal(err)
	}
	check(t, figures, "append_long_p50", "append_new_p50", "append_growth", "turn_long_p50", "turn_new_p50", "turn_growth", "load_snapshot_p50", "load_log_p50")
}

func TestDiscovery(t *testing.T) {
	temporary(t)
	figures, err := Discovery(t.Context(), DiscoveryConfig{Agents: 50, Cards: 3, Turns: 4})
	if err != nil {
		t.Fatal(err)
	}
	check(t, figures, "card_p50", "card_p99", "prompt", "turn_fleet_p50", "turn_quiet_p50", "turn_added")
}

// TestBuild builds a store as Restart does, and reads it.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	if err := build(t.Context(), RestartConfig{Conversations: 20, Agents: 3}, dir); err != nil {
		t.Fatal(err)
	}
	if idle, err := idleMemory(t.Context(), dir); err != nil || idle <= 0 {
		t.Errorf("idleMemory = %v, %v", idle, err)
	}
	n, err := startNode(t.Context(), nodeConfig{dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	have := 0
	for c, err := range n.store.Contexts(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Entries != 2 {
			t.Errorf("%s has %d entries, want 2", c.ContextID, c.Entries)
		}
		have++
	}
	if have != 21 {
		t.Errorf("%d conversations, want 20 and the one that they are copies of", have)
	}
	u, err := n.newUser("conversation-20", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	u.id = "user:model" // who spoke in the conversation that was copied
	if found, err := u.look(t.Context(), "model-1"); !found || err != nil {
		t.Errorf("the answer in a copy: %v, %v", found, err)
	}
	if err := n.await(startTimeout, "the agents", func(context.Context) (bool, error) { return len(n.Routable("")) == 3, nil }); err != nil {
		t.Error(err)
	}
}

func TestRestartSaysWhyItFails(t *testing.T) {
	folder := temporary(t)
	_, err := Restart(t.Context(), RestartConfig{Binary: folder + "/nothing", Conversations: 1, Agents: 1})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Restart = %v, want that there is no such program", err)
	}
	empty(t, folder)
}

// check checks for figures of these cases, in this order, each with a number.
func check(t *testing.T, figures []Figure, cases ...string) {
	t.Helper()
	if len(figures) != len(cases) {
		t.Fatalf("%d figures, want %d: %+v", len(figures), len(cases), figures)
	}
	for i, f := range figures {
		if f.Case != cases[i] || f.What == "" || f.Unit == "" || f.Value <= 0 && f.Case != "turn_added" {
			t.Errorf("figure %d = %+v, want one of %s", i, f, cases[i])
		}
	}
}

// temporary returns a new folder, in which the test's temporary folders are created.
func temporary(t *testing.T) string {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func BenchmarkTurns(b *testing.B) {
	for _, contexts := range []int{1, 64} {
		b.Run(plural(contexts, "conversation"), func(b *testing.B) {
			for b.Loop() {
				_, turn, err := Turns(b.Context(), TurnsConfig{Contexts: contexts, Turns: 5000})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(turn.P50, "p50-µs")
				b.ReportMetric(turn.PerSecond, "turns/s")
			}
		})
	}
}

// TestCount checks which messages count as lost and as duplicates.
func TestCount(t *testing.T) {
	u := &user{said: 5, answers: map[string]int{"once": 1, "three times": 3, "late": 1}, logged: map[string]bool{"late": true, "not shown": true}}
	if got, want := u.count(), (tally{lost: 1, dup: 2}); got != want {
		t.Errorf("count = %+v, want %+v", got, want)
	}
}

// TestConnections checks that users and agents use TCP if configured, and that the orchestrator never does.
func TestConnections(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		n, err := startNode(t.Context(), nodeConfig{dir: t.TempDir(), tcp: tcp})
		if err != nil {
			t.Fatal(err)
		}
		for name, side := range map[string]struct {
			bus *nats.Bus
			tcp bool
		}{"users": {n.userBus, tcp}, "agents": {n.agentBus, tcp}, "orchestrator": {n.bus, false}} {
			if addr := side.bus.Conn().ConnectedAddr(); strings.HasPrefix(addr, "127.0.0.1:") != side.tcp {
				t.Errorf("with TCP %v, the %s are connected to %s", tcp, name, addr)
			}
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}
