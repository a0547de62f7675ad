//go:build unix

package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/mirror"
	"github.com/cortex-orchestrator/cortex/mirror/mirrortest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// mirrorKills is the number of kills in TestMirrorKilled; MIRROR_KILLS overrides it, and MIRROR_SEED what is random.
const mirrorKills = 6

// mirrorWorld is a Cortex with two mirrors of its log in one database, of which one is at work.
type mirrorWorld struct {
	t       *testing.T
	db      *mirrortest.Server
	url     string
	cortex  *process
	mirrors [2]*process
	bus     *nats.Bus
	store   *jetstore.Store
	sent    atomic.Int64
	erased  atomic.Int64
}

func newMirrorWorld(ctx context.Context, t *testing.T) *mirrorWorld {
	t.Helper()
	cortex := cortexPath(t)
	var err error
	w := &mirrorWorld{t: t}
	if w.db, err = mirrortest.New(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	if w.url, err = w.db.Database(ctx); err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	w.cortex = beginKilled(t, "Cortex", filepath.Join(dir, "cortex.log"), func() *exec.Cmd {
		return exec.Command(cortex, "serve", "--http", "none", "--agents", "echo", "--listen", address, "--data", filepath.Join(dir, "data"))
	})
	for i := range w.mirrors {
		w.mirrors[i] = beginKilled(t, "a mirror", filepath.Join(dir, fmt.Sprintf("mirror%d.log", i)), func() *exec.Cmd {
			c := exec.Command(cortex, "mirror", "--nats", "nats://"+address, "--data", filepath.Join(dir, fmt.Sprint("none", i)))
			c.Env = append(os.Environ(), "CORTEX_POSTGRES="+w.url)
			return c
		})
	}
	w.again(ctx, func(ctx context.Context) (err error) {
		w.bus, err = nats.Dial(ctx, &nats.Options{URL: "nats://" + address, Name: "users"})
		return err
	})
	t.Cleanup(func() { w.bus.Close() })
	w.again(ctx, func(ctx context.Context) (err error) {
		w.store, err = jetstore.Open(ctx, w.bus.Conn(), nil)
		return err
	})
	return w
}

// again does something until it succeeds: others may be killed meanwhile.
func (w *mirrorWorld) again(ctx context.Context, f func(context.Context) error) {
	w.t.Helper()
	for {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := f(attempt)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil || errors.Is(err, transport.ErrInvalid) {
			w.t.Errorf("it is not done: %v", err)
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// say sends a message to a conversation.
func (w *mirrorWorld) say(ctx context.Context, contextID, text string) {
	id := contextID + "-" + strings.ReplaceAll(text, " ", "-")
	w.again(ctx, func(ctx context.Context) error {
		return w.bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
			ID: id, Time: time.Now(), From: "user", To: transport.Cortex, ContextID: contextID,
			Payload: &a2a.Message{ID: id, ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("echo " + text)}},
		})
	})
	w.sent.Add(1)
}

// kill kills one of all.
func (w *mirrorWorld) kill(which int) {
	w.t.Helper()
	switch which {
	case 0:
		w.cortex.kill()
		w.cortex.begin(w.t, "Cortex")
	case 1:
		w.db.Kill()
		if err := w.db.Start(); err != nil {
			w.t.Fatal(err)
		}
	default:
		w.mirrors[which-2].kill()
		w.mirrors[which-2].begin(w.t, "a mirror")
	}
}

// TestMirrorKilled kills Cortex, PostgreSQL and two mirrors at random while people talk and conversations are deleted. In the end the database has every
// entry of the log once, and what follows from the entries is what a fold of the log says.
func TestMirrorKilled(t *testing.T) {
	if here, err := mirrortest.Here(os.Stderr, "TestMirrorKilled"); err != nil {
		t.Fatal(err)
	} else if !here {
		return
	}
	kills, seed := killing(t, "MIRROR", mirrorKills)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(kills)*10*time.Second)
	defer cancel()
	w := newMirrorWorld(ctx, t)
	stop := make(chan struct{})
	var people sync.WaitGroup
	for i := range 4 {
		people.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(random.IntN(60)) * time.Millisecond):
				}
				w.say(ctx, fmt.Sprintf("talk-%d-of-%d", random.IntN(20), i), fmt.Sprint("text ", n))
				if n%50 == 49 { // of its own, since nobody speaks while it is deleted
					id := fmt.Sprintf("brief-%d-of-%d", n, i)
					w.say(ctx, id, "soon forgotten")
					w.again(ctx, func(ctx context.Context) error {
						_, err := erase.Conversation(ctx, w.store, w.bus, "", id)
						return err
					})
					w.erased.Add(1)
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 0))
	var killed [4]int
	for range kills {
		<-time.After(time.Duration(random.IntN(900)) * time.Millisecond)
		which := random.IntN(4)
		killed[which]++
		w.kill(which)
	}
	close(stop)
	people.Wait()
	w.settled(ctx)
	w.report(ctx)
	t.Logf("kills of Cortex, PostgreSQL and the mirrors: %v; %d messages, %d deletions", killed, w.sent.Load(), w.erased.Load())
}

// settled waits until every turn is answered.
func (w *mirrorWorld) settled(ctx context.Context) {
	w.t.Helper()
	w.again(ctx, func(ctx context.Context) error {
		for info, err := range w.store.Contexts(ctx, "") {
			if err != nil {
				return err
			}
			c := conversation.NewConversation("", info.ContextID)
			for e, err := range w.store.Load(ctx, "", info.ContextID, 0) {
				if err == nil {
					err = c.Apply(e)
				}
				if err != nil {
					return err
				}
			}
			if slices.ContainsFunc(c.Turns, (*conversation.Turn).Open) {
				return errors.New("a turn is open")
			}
		}
		return nil
	})
}

// report compares the database with the log.
func (w *mirrorWorld) report(ctx context.Context) {
	w.t.Helper()
	var r *mirror.Report
	w.again(ctx, func(ctx context.Context) (err error) {
		if r, err = mirror.Check(ctx, w.store, &mirror.Options{Postgres: w.url}, 5*time.Second); err == nil && !r.Complete() {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	w.t.Logf("%+v", r)
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it has no more use
	lines := func(query string) []string {
		w.t.Helper()
		rows, err := conn.Query(ctx, query)
		if err != nil {
			w.t.Fatal(err)
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			w.t.Fatal(err)
		}
		slices.Sort(all)
		return all
	}
	var entries, talks, turns, tasks []string
	for info, err := range w.store.Contexts(ctx, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		c := conversation.NewConversation("", info.ContextID)
		ended, done := map[string]string{}, map[a2a.TaskID]string{}
		for e, err := range w.store.Load(ctx, "", info.ContextID, 0) {
			if err == nil {
				err = c.Apply(e)
			}
			if err != nil {
				w.t.Fatal(err)
			}
			entries = append(entries, fmt.Sprintf("%d %s %d", e.Version, info.ContextID, e.Seq))
			for _, turn := range c.Turns { // a fold forgets
				ended[turn.ID] = fmt.Sprintf("%s %s %s %t %d", info.ContextID, turn.ID, turn.Kind, turn.Failed, turn.Decisions)
			}
			for id, task := range c.Tasks {
				done[id] = fmt.Sprintf("%s %s %s %s %d", info.ContextID, id, task.Agent, task.State(), task.Attempt)
			}
		}
		talks = append(talks, fmt.Sprintf("%s %d %d", info.ContextID, c.Seq, c.Begun))
		for _, line := range ended {
			turns = append(turns, line)
		}
		for _, line := range done {
			tasks = append(tasks, line)
		}
	}
	for _, of := range []struct {
		what, query string
		want        []string
	}{
		{"entries", "SELECT version || ' ' || context_id || ' ' || seq FROM cortex.entries", entries},
		{"conversations", "SELECT context_id || ' ' || entries || ' ' || turns FROM cortex.conversations WHERE damage IS NULL", talks},
		{"turns", "SELECT context_id || ' ' || turn_id || ' ' || outcome || ' ' || failed || ' ' || steps FROM cortex.turns", turns},
		{"tasks", "SELECT context_id || ' ' || task_id || ' ' || agent || ' ' || state || ' ' || attempts FROM cortex.tasks", tasks},
	} {
		slices.Sort(of.want)
		if d := cmp.Diff(of.want, lines(of.query)); d != "" {
			w.t.Errorf("the %s differ from the log's (-want +got):\n%s", of.what, d[:min(len(d), 2000)])
		}
		w.t.Logf("%d %s", len(of.want), of.what)
	}
	if n := lines("SELECT 'x' FROM cortex.quarantine"); len(n) > 0 {
		w.t.Errorf("%d entries are in quarantine", len(n))
	}
	if strings.Contains(endOf(w.mirrors[0].log)+endOf(w.mirrors[1].log), "panic") {
		w.t.Error("a mirror has panicked")
	}
}
