//go:build unix

package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// keyed is an http.RoundTripper that gives each request the same Idempotency-Key.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Idempotency-Key", string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// mortal is a Cortex that is an A2A server, with an agent that writes what it does into a file.
type mortal struct {
	t           *testing.T
	address     string
	gate, done  string // the agent waits for the first file, and writes into the second
	card        string // of the agent
	run         func(args ...string) *exec.Cmd
	cortex, agt func() // kill -9
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	cortex := cortexPath(t)
	dir := t.TempDir()
	m := &mortal{t: t, gate: filepath.Join(dir, "gate"), done: filepath.Join(dir, "done"), card: filepath.Join(dir, "card.yaml")}
	writeFile(t, m.card, "name: slow\ndescription: takes its time\nskills: [{id: dawdle, name: dawdle, description: takes its time}]\n")
	m.run = func(args ...string) *exec.Cmd {
		c := exec.Command(cortex, args...)
		c.Env = append(os.Environ(), "CORTEX_DATA="+filepath.Join(dir, "data"))
		return c
	}
	m.address = freeAddress(t)
	m.serve()
	m.agent()
	t.Cleanup(func() {
		m.cortex()
		m.agt()
	})
	m.eventually("the agent joins", func() bool {
		res, err := http.Get("http://" + m.address + "/agents/slow/.well-known/agent-card.json") //nolint:noctx // of a test
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return m
}

func (m *mortal) start(args ...string) (end func()) {
	c := m.run(args...)
	if testing.Verbose() {
		c.Stderr = os.Stderr
	}
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	return func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func (m *mortal) serve() {
	m.cortex = m.start("serve", "--http", "none", "--a2a", m.address, "--a2a-push-host", "127.0.0.1", "--agents", "none", "--sync", "always")
}

func (m *mortal) agent() {
	script := `read line; echo "$line" >> "$1"; while [ ! -e "$0" ]; do sleep 0.05; done; echo "finished $line"`
	m.agt = m.start("agent", "exec", "--concurrency", "8", "--card", m.card, "--", "sh", "-c", script, m.gate, m.done)
}

func (m *mortal) eventually(what string, cond func() bool) {
	m.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !cond(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("%s: it does not happen", what)
		}
	}
}

// lines returns what the agent has begun.
func (m *mortal) lines() []string {
	b, _ := os.ReadFile(m.done)
	return strings.Fields(string(b))
}

// join returns a client that gives each of its messages the same key.
func (m *mortal) join(ctx context.Context, binding a2a.TransportProtocol, key string) *a2aclient.Client {
	hc := &http.Client{Transport: keyed(key)}
	c, err := a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{{URL: "http://" + m.address + "/agents/slow", ProtocolBinding: binding, ProtocolVersion: a2a.Version}},
		a2aclient.WithJSONRPCTransport(hc), a2aclient.WithRESTTransport(hc))
	if err != nil {
		m.t.Error(err)
	}
	return c
}

// toEnd follows a task to its end, whatever happens to the connection, and returns it; nil when ctx ends before.
func toEnd(ctx context.Context, c *a2aclient.Client, id a2a.TaskID) *a2a.Task {
	for ctx.Err() == nil {
		for range c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: id}) { //nolint:revive // until it ends
		}
		if task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); err == nil && task.Status.State.Terminal() {
			return task
		}
		<-time.After(50 * time.Millisecond)
	}
	return nil
}

// words returns a message with a text.
func words(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}}
}

// TestA2AKilled has A2A clients send, stream and subscribe while Cortex is killed. They go on where they were, each task is done once, and all tasks are
// there after another kill.
func TestA2AKilled(t *testing.T) {
	m := newMortal(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	var told atomic.Int64 // clients that know what they wait for
	ends := make(chan string, 8)
	ids := make(chan a2a.TaskID, 8)
	for i, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
		resume := func(c *a2aclient.Client, id a2a.TaskID) {
			ids <- id
			if task := toEnd(ctx, c, id); task != nil && len(task.Artifacts) > 0 {
				ends <- string(task.Status.State) + " " + task.Artifacts[0].Parts[0].Text()
				return
			}
			ends <- "nothing"
		}
		clients.Go(func() { // a call that waits, made again until it is answered
			text := fmt.Sprint("send", i)
			c := m.join(ctx, binding, text)
			for ctx.Err() == nil {
				got, err := c.SendMessage(ctx, words(text))
				if task, ok := got.(*a2a.Task); err == nil && ok {
					resume(c, task.ID)
					return
				}
				<-time.After(50 * time.Millisecond)
			}
			ends <- "nothing"
		})
		clients.Go(func() { // a stream
			text := fmt.Sprint("stream", i)
			c := m.join(ctx, binding, text)
			var id a2a.TaskID
			for e, err := range c.SendStreamingMessage(ctx, words(text)) {
				if err != nil {
					continue
				}
				if id == "" {
					told.Add(1)
				}
				id = e.TaskInfo().TaskID
			}
			resume(c, id)
		})
		clients.Go(func() { // a subscription
			text := fmt.Sprint("subscribe", i)
			c := m.join(ctx, binding, text)
			r := words(text)
			r.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
			got, err := c.SendMessage(ctx, r)
			if err != nil {
				t.Error(err)
				ends <- "nothing"
				return
			}
			told.Add(1)
			resume(c, got.(*a2a.Task).ID)
		})
	}
	m.eventually("the agent is at work", func() bool { return len(m.lines()) >= 6 && told.Load() == 4 })
	m.cortex()
	m.serve()
	<-time.After(300 * time.Millisecond)
	writeFile(t, m.gate, "")
	clients.Wait()
	close(ends)
	close(ids)
	for end := range ends {
		if !strings.HasPrefix(end, "TASK_STATE_COMPLETED finished ") {
			t.Errorf("a client got %q", end)
		}
	}
	count := map[string]int{}
	for _, line := range m.lines() {
		count[line]++
	}
	for line, n := range count {
		if n != 1 {
			t.Errorf("%s was done %d times", line, n)
		}
	}
	if len(count) != 6 {
		t.Errorf("done: %v", count)
	}
	m.cortex()
	m.serve()
	c := m.join(ctx, a2a.TransportProtocolJSONRPC, "list")
	var list *a2a.ListTasksResponse
	m.eventually("the tasks are listed", func() bool {
		var err error
		list, err = c.ListTasks(ctx, &a2a.ListTasksRequest{Status: a2a.TaskStateCompleted})
		return err == nil
	})
	if list.TotalSize != 6 {
		t.Errorf("%d tasks are listed", list.TotalSize)
	}
	for id := range ids {
		if task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: id}); err != nil || task.Status.State != a2a.TaskStateCompleted {
			t.Errorf("%s: %+v, %v", id, task, err)
		}
	}
}

// a2aKills is the number of kills in TestA2AKillLoop; A2A_KILLS overrides it, and A2A_SEED what is random. A2A_DIR is an empty folder in which the logs stay.
const a2aKills = 6

// TestA2AKillLoop kills Cortex, its agent, a bridge, its peer and the peer's agent at random while people send, stream, subscribe, reply and cancel in
// all bindings. Each message is answered once, by its own answer, however often it was sent.
func TestA2AKillLoop(t *testing.T) {
	kills, seed := killing(t, "A2A", a2aKills)
	people := []string{"ada", "bob"}
	p := newPair(t, people...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(kills)*5*time.Second)
	defer cancel()
	all, stop := &errands{t: t, p: p}, make(chan struct{})
	var clients sync.WaitGroup
	for i, user := range people {
		for j, binding := range a2aBindings {
			random := rand.New(rand.NewPCG(seed, uint64(1+i*len(a2aBindings)+j)))
			clients.Go(func() { all.run(ctx, user, binding, random, stop) })
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range kills {
		<-time.After(time.Duration(random.IntN(600)) * time.Millisecond)
		p.again(a2aProcesses[random.IntN(len(a2aProcesses))])
		if n%4 == 3 { // else, on a slow machine, nothing would ever be up
			before := all.answered.Load()
			p.eventually(2*time.Minute, "something is answered", func() bool { return all.answered.Load() > before })
		}
	}
	close(stop)
	clients.Wait()
	all.report(ctx, kills, seed)
}
