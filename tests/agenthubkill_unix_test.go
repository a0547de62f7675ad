//go:build unix

package tests

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubtest"
)

// agenthubKills is the number of kills in TestAgentHubKillLoop; AGENTHUB_KILLS overrides it, and AGENTHUB_SEED what is random.
const agenthubKills = 6

// hubWorld is a Cortex that is AgentHub's hub, with programs that connect again when it was killed.
type hubWorld struct {
	t       *testing.T
	address string
	cortex  *process

	mu   sync.Mutex
	cut  map[string]func()   // ends the connection of a program, by its name
	done map[string]int      // executions of agents, by input
	said map[string][]string // answers, by the ids of messages
	sent map[string]string   // accepted messages
}

func newHubWorld(t *testing.T) *hubWorld {
	t.Helper()
	dir := t.TempDir()
	w := &hubWorld{t: t, address: freeAddress(t), cut: map[string]func(){}, done: map[string]int{}, said: map[string][]string{}, sent: map[string]string{}}
	w.cortex = serveKilled(t, dir, nil, "--agenthub", w.address)
	return w
}

// agent is an agent that registers and subscribes again and again.
func (w *hubWorld) agent(ctx context.Context, id string, random *rand.Rand, there func()) {
	var mu sync.Mutex // guards random
	a := &hubtest.SubAgent{ID: id, OnStream: there, Skills: []hubtest.Skill{{Name: "Echo Messages", About: "Echoes back any text message", Do: func(ctx context.Context, t *hubpb.Task, m *hubpb.Message) (hubpb.TaskState, *hubpb.Artifact) {
		w.mu.Lock()
		w.done[m.Content[0].GetText()]++
		w.mu.Unlock()
		mu.Lock()
		pause := time.Duration(random.IntN(100)) * time.Millisecond
		mu.Unlock()
		<-time.After(pause)
		return hubtest.EchoText(ctx, t, m)
	}}}}
	for ctx.Err() == nil {
		w.with(id, func(hub hubpb.AgentHubClient) { _ = a.Run(ctx, hub) })
	}
}

// with calls f with a new connection of a program.
func (w *hubWorld) with(name string, f func(hub hubpb.AgentHubClient)) {
	hub, end, err := hubtest.Dial(w.address)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer end()
	w.mu.Lock()
	w.cut[name] = end
	w.mu.Unlock()
	f(hub)
	<-time.After(50 * time.Millisecond)
}

// chat sends messages until stop is closed, each until it has its answer.
func (w *hubWorld) chat(ctx context.Context, id, agent string, answered *atomic.Int64, stop <-chan struct{}) {
	n, text, message := 0, "", ""
	for ctx.Err() == nil {
		over := false
		w.with(id, func(hub hubpb.AgentHubClient) {
			c := &hubtest.CLI{Hub: hub, ID: id, Context: "session of " + id}
			if c.Subscribe(ctx) != nil {
				return
			}
			for {
				if message == "" {
					select {
					case <-stop:
						over = true
						w.hear(c, 300*time.Millisecond) // what should not come
						return
					default:
					}
					n++
					text, message = fmt.Sprint(id, " ", n), fmt.Sprint(id, "-", n)
				} else { // the answer may be on its way
					w.hear(c, 2*time.Second, message)
				}
				for !w.has(message) {
					if c.Send(ctx, message, "@"+agent+" "+text) != nil {
						return
					}
					w.accepted(message, text)
					if !w.hear(c, 10*time.Second, message) {
						return // the stream has ended
					}
				}
				message = ""
				answered.Add(1)
			}
		})
		if over {
			return
		}
	}
}

// end cuts the connection of a program.
func (w *hubWorld) end(name string) {
	w.mu.Lock()
	cut := w.cut[name]
	w.mu.Unlock()
	if cut != nil {
		cut()
	}
}

func (w *hubWorld) accepted(message, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[message] = text
}

func (w *hubWorld) has(message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.said[message]) > 0
}

// hear notes answers until there is one to a message, or time is over. It returns false when the stream has ended.
func (w *hubWorld) hear(c *hubtest.CLI, d time.Duration, message ...string) bool {
	end := time.After(d)
	for {
		select {
		case m, ok := <-c.Shown:
			if !ok {
				return false
			}
			of, text := m.Metadata.Fields["original_message_id"].GetStringValue(), m.Content[0].GetText()
			if strings.HasPrefix(text, "This takes longer.") {
				continue
			}
			w.mu.Lock()
			w.said[of] = append(w.said[of], text)
			w.mu.Unlock()
			if len(message) > 0 && of == message[0] {
				return true
			}
		case <-end:
			return true
		}
	}
}

// TestAgentHubKillLoop kills Cortex and cuts off programs at random while agents work and people chat over AgentHub's wire, who all connect again. Each message that was accepted
// has one answer.
func TestAgentHubKillLoop(t *testing.T) {
	kills, seed := killing(t, "AGENTHUB", agenthubKills)
	w := newHubWorld(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(kills)*10*time.Second)
	defer cancel()
	var answered atomic.Int64
	var agents, chats sync.WaitGroup
	working, end := context.WithCancel(ctx)
	stop := make(chan struct{})
	var programs []string
	for i := range 2 {
		agent := fmt.Sprint("worker_", i)
		random := rand.New(rand.NewPCG(seed, uint64(i+1)))
		there := make(chan struct{})
		agents.Go(func() { w.agent(working, agent, random, sync.OnceFunc(func() { close(there) })) })
		<-there
		programs = append(programs, agent)
		for j := range 2 {
			chat := fmt.Sprint("chat_", i, "_", j)
			programs = append(programs, chat)
			chats.Go(func() { w.chat(ctx, chat, agent, &answered, stop) })
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	more := func() { awaitMore(ctx, t, &answered) }
	more()
	for n := range kills {
		<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
		if n%2 == 1 { // what it has in hand is lost, as if it were killed
			w.end(programs[random.IntN(len(programs))])
			continue
		}
		w.cortex.kill()
		w.cortex.begin(t, "Cortex")
		if n%6 == 4 {
			more()
		}
	}
	more()
	close(stop)
	chats.Wait()
	end()
	agents.Wait()
	w.report(ctx, kills, seed)
}

// report checks what was said.
func (w *hubWorld) report(ctx context.Context, kills int, seed uint64) {
	if ctx.Err() != nil {
		w.t.Error("it took too long")
	}
	echoed, other, runs := 0, map[string]int{}, 0
	for message, text := range w.sent {
		switch all := w.said[message]; {
		case len(all) != 1:
			w.t.Errorf("%s was answered %d times: %q", message, len(all), all)
		case strings.Contains(all[0], "Echo: "+text):
			echoed++
		default:
			other[cmp.Or(all[0], "nothing")]++
		}
	}
	for _, n := range w.done {
		runs += n
	}
	w.t.Logf("%d kills (AGENTHUB_SEED=%d): %d messages, each answered once, %d of them by an agent in %d executions, others: %v", kills, seed, len(w.sent), echoed, runs, other)
}
