//go:build unix

package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// The load of BenchmarkTurnsBesideMirror: so many turns a second, in so many conversations, in pieces with and without a mirror by turns.
const (
	loadRate   = 100
	loadTalks  = 8
	loadPieces = 8
	loadPiece  = 400 // turns
)

// BenchmarkTurnsBesideMirror measures how much later answers come while the log is mirrored, into a PostgreSQL that flushes to disk on the same machine.
func BenchmarkTurnsBesideMirror(b *testing.B) {
	if here, err := mirrortest.Here(os.Stderr, "BenchmarkTurnsBesideMirror"); err != nil || !here {
		b.Skip(err)
	}
	cortex := filepath.Join(b.TempDir(), "cortex")
	if out, err := exec.Command("go", "build", "-o", cortex, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	db, err := mirrortest.New(true)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	ctx := b.Context()
	url, err := db.Database(ctx)
	if err != nil {
		b.Fatal(err)
	}
	address := freeAddress(b)
	run := func(args ...string) (stop func()) {
		b.Helper()
		c := exec.Command(cortex, args...)
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		return sync.OnceFunc(func() {
			c.Process.Signal(os.Interrupt) //nolint:errcheck // it has ended
			c.Wait()                       //nolint:errcheck // likewise
		})
	}
	defer run("serve", "--http", "none", "--agents", "echo", "--listen", address, "--data", filepath.Join(b.TempDir(), "data"))()
	var bus *nats.Bus
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		if bus, err = nats.Dial(ctx, &nats.Options{URL: "nats://" + address, Name: "users"}); err == nil {
			break
		}
		if time.Now().After(end) {
			b.Fatal(err)
		}
	}
	defer bus.Close()
	store, err := jetstore.Open(ctx, bus.Conn(), nil)
	if err != nil {
		b.Fatal(err)
	}
	l := &load{bus: bus, sent: map[string]time.Time{}}
	for i := range loadTalks {
		answers, err := bus.Subscribe(ctx, transport.Live("", fmt.Sprint("talk-", i)), nil)
		if err != nil {
			b.Fatal(err)
		}
		go answers.Serve(ctx, l.hear) //nolint:errcheck // it ends with the benchmark
	}
	l.piece(ctx, b, loadPiece) // until everything is warm
	var with, without []time.Duration
	for b.Loop() {
		for range loadPieces {
			without = append(without, l.piece(ctx, b, loadPiece)...)
			stop := run("mirror", "--postgres", url, "--nats", "nats://"+address, "--data", b.TempDir())
			caughtUp := func() {
				r, err := mirror.Check(ctx, store, &mirror.Options{Postgres: url}, time.Minute)
				if err != nil || !r.Complete() {
					b.Fatalf("the mirror: %+v, %v", r, err)
				}
			}
			caughtUp()
			with = append(with, l.piece(ctx, b, loadPiece)...)
			caughtUp()
			stop()
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	ms := func(all []time.Duration, part int) float64 {
		return float64(all[len(all)*part/100].Microseconds()) / 1000
	}
	b.ReportMetric(ms(without, 50), "ms-p50-without")
	b.ReportMetric(ms(with, 50), "ms-p50-with")
	b.ReportMetric(ms(without, 95), "ms-p95-without")
	b.ReportMetric(ms(with, 95), "ms-p95-with")
	b.ReportMetric(100*(ms(with, 50)/ms(without, 50)-1), "%-p50")
}

// load says things, and measures when they are answered.
type load struct {
	bus *nats.Bus
	n   int

	mu   sync.Mutex
	sent map[string]time.Time
	took []time.Duration
}

// hear takes an answer.
func (l *load) hear(_ context.Context, e *transport.Event) error {
	m, ok := e.Payload.(*a2a.Message)
	if !ok || e.From != transport.Cortex || m.Role != a2a.MessageRoleAgent {
		return nil
	}
	text := transport.Text(m.Parts)
	id := text[strings.LastIndexByte(text, ' ')+1:]
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.sent[id]; ok {
		l.took = append(l.took, time.Since(at))
		delete(l.sent, id)
	}
	return nil
}

// piece says n things, at the same distances, and returns how long their answers took.
func (l *load) piece(ctx context.Context, b *testing.B, n int) []time.Duration {
	b.Helper()
	tick := time.NewTicker(time.Second / loadRate)
	defer tick.Stop()
	for range n {
		<-tick.C
		l.n++
		id := fmt.Sprint("x", l.n)
		l.mu.Lock()
		l.sent[id] = time.Now()
		l.mu.Unlock()
		talk := fmt.Sprint("talk-", l.n%loadTalks)
		go func() {
			err := l.bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
				ID: id, Time: time.Now(), From: "user", To: transport.Cortex, ContextID: talk,
				Payload: &a2a.Message{ID: id, ContextID: talk, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("echo " + id)}},
			})
			if err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		}()
	}
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		l.mu.Lock()
		left, took := len(l.sent), l.took
		if left == 0 {
			l.took = nil
		}
		l.mu.Unlock()
		if left == 0 {
			return took
		}
		if time.Now().After(end) {
			b.Fatalf("%d messages are not answered", left)
		}
	}
}
