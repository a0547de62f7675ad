//go:build unix

package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
)

// rockbotKills is the number of kills in TestRockBotKilled; ROCKBOT_KILLS overrides it, and ROCKBOT_SEED what is random.
const rockbotKills = 10

// rabbitMQ starts a RabbitMQ for a test. Without one the test is skipped, which is told of, and an error in CI.
func rabbitMQ(t *testing.T) *rockbottest.Server {
	t.Helper()
	s, err := rockbottest.Start(t.TempDir())
	if errors.Is(err, rockbottest.ErrMissing) && os.Getenv("CI") == "" {
		fmt.Fprintf(os.Stderr, "NOT RUN: %s: %v\n", t.Name(), err)
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	return s
}

// rockWorld is a Cortex at RockBot's RabbitMQ, with an agent and a caller that connect again when they are cut off.
type rockWorld struct {
	t      *testing.T
	rabbit *rockbottest.Server
	cortex *process
	worker *rockbottest.Program
	caller *rockbottest.Program

	mu       sync.Mutex
	done     map[string]int    // executions of the agent, by what it was asked
	sent     map[string]string // accepted tasks: what was asked, by id
	answered atomic.Int64
}

func newRockWorld(t *testing.T, seed uint64) *rockWorld {
	t.Helper()
	dir := t.TempDir()
	w := &rockWorld{t: t, rabbit: rabbitMQ(t), done: map[string]int{}, sent: map[string]string{}}
	var mu sync.Mutex // guards random
	random := rand.New(rand.NewPCG(seed, 1))
	w.worker = &rockbottest.Program{Name: "Worker", Skills: []string{"echo"}, Wrong: func(err error) { t.Error(err) }, Do: func(k *rockbottest.Work) {
		w.mu.Lock()
		w.done[k.Text()]++
		w.mu.Unlock()
		mu.Lock()
		pause := time.Duration(random.IntN(100)) * time.Millisecond
		mu.Unlock()
		<-time.After(pause)
		k.Result(rockbottest.Completed, "done: "+k.Text())
	}}
	w.caller = &rockbottest.Program{Name: "RockBot", Wrong: func(err error) { t.Error(err) }}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules:\n  - agents: ['rockbot:*']\n    requests_per_minute: 1000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cortex = serveKilled(t, dir, []string{"CORTEX_ROCKBOT=" + w.rabbit.URL()}, "--task-timeout", "30s", "--policy", policy)
	return w
}

// ask gives Cortex one task after another, and waits for the answer to each.
func (w *rockWorld) ask(ctx context.Context, who int, stop <-chan struct{}) {
	for n := 0; ctx.Err() == nil; n++ {
		select {
		case <-stop:
			return
		default:
		}
		what, id := fmt.Sprintf("work %d of %d", n, who), rockbottest.NewID()
		for !w.caller.Hand(ctx, id, "Cortex", "ask", "@Worker "+what) {
			// RabbitMQ may have it nevertheless: with this id it is the same task.
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		w.mu.Lock()
		w.sent[id] = what
		w.mu.Unlock()
		if _, err := w.caller.Response(ctx, id, 1); err != nil {
			w.t.Errorf("%s has no answer: %v", what, err)
			return
		}
		w.answered.Add(1)
	}
}

// TestRockBotKilled kills Cortex, RabbitMQ, and RockBot's agent and caller at random, while the caller has Cortex do what the agent is good at. Each task
// that RabbitMQ has accepted has one answer of Cortex, which may be sent twice, and for good.
func TestRockBotKilled(t *testing.T) {
	kills, seed := killing(t, "ROCKBOT", rockbotKills)
	w := newRockWorld(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(kills)*20*time.Second)
	defer cancel()
	keeping, end := context.WithCancel(ctx)
	var programs, callers sync.WaitGroup
	there := make(chan struct{}, 2)
	programs.Go(func() {
		w.worker.Keep(keeping, w.rabbit.URL(), func() {
			w.worker.Announce()
			select {
			case there <- struct{}{}:
			default:
			}
		})
	})
	programs.Go(func() {
		w.caller.Keep(keeping, w.rabbit.URL(), sync.OnceFunc(func() { there <- struct{}{} }))
	})
	defer programs.Wait()
	defer end()
	<-there
	<-there
	if _, err := w.caller.Knows(ctx, "Cortex", true); err != nil {
		t.Fatal(err)
	}
	w.worker.Announce() // Cortex was perhaps not there before
	stop := make(chan struct{})
	for i := range 4 {
		callers.Go(func() { w.ask(ctx, i, stop) })
	}
	random := rand.New(rand.NewPCG(seed, 0))
	more := func() { awaitMore(ctx, t, &w.answered) }
	more()
	counts := map[string]int{}
	for n := range kills {
		<-time.After(time.Duration(random.IntN(500)) * time.Millisecond)
		what := []string{"Cortex", "agent", "caller"}[random.IntN(3)]
		if n%5 == 3 { // it takes long to start
			what = "RabbitMQ"
		}
		counts[what]++
		switch what {
		case "Cortex":
			w.cortex.kill()
			w.cortex.begin(t, what)
		case "agent":
			w.worker.Kill()
		case "caller":
			w.caller.Kill()
		default:
			w.rabbit.Kill()
			if err := w.rabbit.Begin(); err != nil {
				t.Fatal(err)
			}
		}
		more()
	}
	close(stop)
	callers.Wait()
	w.report(ctx, counts)
}

// report checks what was answered and done. Each task is sent again: the answer has to be the same.
func (w *rockWorld) report(ctx context.Context, kills map[string]int) {
	texts, done, others, twice := map[string]int{}, 0, map[string]int{}, 0
	for id, what := range w.sent {
		all := w.caller.Responses(id)
		if len(all) == 0 {
			w.t.Errorf("%s has no answer", what)
			continue
		}
		if len(all) > 1 {
			twice++
		}
		clear(texts)
		for _, m := range all {
			texts[m.Text()]++
		}
		if w.caller.Send(id, "Cortex", "ask", "@Worker "+what, nil); len(texts) > 1 {
			w.t.Errorf("%s has different answers: %v", what, texts)
		}
		again, err := w.caller.Response(ctx, id, len(all)+1)
		if err != nil {
			w.t.Errorf("%s is not answered again: %v", what, err)
			continue
		}
		said := all[0].Text()
		switch {
		case again.Text() != said:
			w.t.Errorf("%s is answered with %q, and before with %q", what, again.Text(), said)
		case strings.Contains(said, "done: "+what) && w.done[what] > 0:
			done++
		case w.done[what] > 0: // RockBot does not ask RabbitMQ whether it has the result, and says that the task is done
			others["done, and the result was lost with RabbitMQ: "+said]++
		default:
			others[said]++
		}
	}
	executions, more := 0, 0
	for _, n := range w.done {
		if executions += n; n > 1 {
			more++
		}
	}
	w.t.Logf("kills %v: %d tasks accepted, each with one answer (%d of them sent more than once), %d done by the agent in %d executions (%d of them more than once), others: %v",
		kills, len(w.sent), twice, done, executions, more, others)
}
