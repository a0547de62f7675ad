//go:build unix

package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// crew is two Cortexes on one NATS server, both of them A2A servers.
type crew struct {
	t       *testing.T
	bus     *nats.Bus
	web     []string // addresses
	members []*process
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	cortex := cortexPath(t)
	dir := t.TempDir()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: server.URL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	c := &crew{t: t, bus: bus}
	for i := range 2 {
		name, address := fmt.Sprint("replica", i), freeAddress(t)
		c.web = append(c.web, address)
		p := &process{log: filepath.Join(dir, name+".log"), start: func() *exec.Cmd {
			return exec.Command(cortex, "serve", "--nats", server.URL(), "--data", filepath.Join(dir, name), "--http", "none", "--agents", "echo",
				"--a2a", address, "--a2a-push-host", "127.0.0.1")
		}}
		c.members = append(c.members, p)
		t.Cleanup(func() {
			if p.now != nil {
				p.kill()
			}
			if t.Failed() {
				t.Logf("%s:\n%s", name, endOf(p.log))
			}
		})
		p.begin(t, name)
	}
	return c
}

// leader returns the member that owns the first partition, once each has its share, and so pushes for both.
func (c *crew) leader() *process {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		owners, err := c.bus.Owners(c.t.Context(), transport.Inbox("", transport.Cortex))
		owners = slices.DeleteFunc(owners, func(o transport.Owner) bool { return len(o.Partitions) == 0 })
		if err != nil || len(owners) != len(c.members) {
			continue
		}
		for _, o := range owners {
			for _, p := range c.members {
				if o.Partitions[0] == 0 && strings.HasSuffix(o.Label, fmt.Sprint("/", p.pid())) {
					return p
				}
			}
		}
	}
	c.t.Fatal("no replica leads")
	return nil
}

// pid returns the id of the process that runs now.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Process.Pid
}

// join returns a client of the agent at a member. Its messages have the same key, so that they can be sent again.
func (c *crew) join(member int, key string) *a2aclient.Client {
	hc := &http.Client{Transport: keyed(key)}
	at := &a2a.AgentInterface{URL: "http://" + c.web[member] + "/agents/agent_echo", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2a.Version}
	client, err := a2aclient.NewFromEndpoints(c.t.Context(), []*a2a.AgentInterface{at}, a2aclient.WithJSONRPCTransport(hc))
	if err != nil {
		c.t.Error(err)
	}
	return client
}

// strikes are a receiver of push notifications which may be struck: then it does not answer before the one who has sent it something is gone.
type strikes struct {
	*pushes
	next chan func() // what a post that comes calls in place of an answer

	mu   sync.Mutex
	lost map[string]string // the posts that got no answer: their receiver, by id
}

func (s *strikes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case strike := <-s.next:
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.lost[r.Header.Get("Idempotency-Key")] = r.URL.Path
		s.mu.Unlock()
		strike()
	default:
		s.pushes.ServeHTTP(w, r)
	}
}

// TestA2APushLeaderKilled kills, of two replicas on one NATS server, the one that pushes, while its notifications are on their way: the other one pushes what
// nobody knows to have arrived, and what comes then. Each receiver is told everything, in order.
func TestA2APushLeaderKilled(t *testing.T) {
	const kills = 3
	c := newCrew(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := &strikes{pushes: &pushes{of: map[string][]string{}, seen: map[string]bool{}}, next: make(chan func()), lost: map[string]string{}}
	receiver := httptest.NewServer(s)
	t.Cleanup(func() {
		receiver.CloseClientConnections()
		receiver.Close()
	})
	c.leader()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var mu sync.Mutex
	sent := map[string]a2a.TaskID{} // by path
	for worker := range 4 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				text := fmt.Sprintf("%d-%d", worker, n)
				for try := 0; ctx.Err() == nil; try++ { // at one, or else at the other
					got, err := c.join((worker+try)%len(c.web), text).SendMessage(ctx, pushed(text, receiver.URL+"/"+text))
					if task, ok := got.(*a2a.Task); err == nil && ok {
						mu.Lock()
						sent["/"+text] = task.ID
						mu.Unlock()
						break
					}
					<-time.After(50 * time.Millisecond)
				}
			}
		})
	}
	for range kills {
		leads, killed := c.leader(), make(chan struct{})
		strike := func() {
			defer close(killed)
			leads.kill()
		}
		select {
		case s.next <- strike:
		case <-ctx.Done():
			t.Fatal("nothing is pushed")
		}
		<-killed
		leads.begin(t, "a replica")
	}
	close(stop)
	clients.Wait()
	if ctx.Err() != nil {
		t.Fatal("the messages are not taken in time")
	}
	for path := range sent {
		for !strings.HasSuffix(strings.Join(s.told(path), " "), string(a2a.TaskStateCompleted)) {
			if ctx.Err() != nil {
				t.Fatalf("%s was told %v", path, s.told(path))
			}
			<-time.After(20 * time.Millisecond)
		}
		want := []string{string(a2a.TaskStateWorking), "answer", string(a2a.TaskStateCompleted)}
		if got := s.told(path); !slices.Equal(got, want) {
			t.Errorf("%s was told %v", path, got)
		}
	}
	s.pushes.mu.Lock()
	defer s.pushes.mu.Unlock()
	for id, path := range s.lost {
		if !s.seen[id] {
			t.Errorf("what %s was told when its sender was killed does not come again", path)
		}
	}
	if len(s.lost) == 0 || len(sent) < kills { // the same one may have been lost each time
		t.Errorf("%d notifications got no answer, of %d tasks", len(s.lost), len(sent))
	}
	t.Logf("%d kills, %d tasks, %d notifications taken, and %d of them twice", kills, len(sent), len(s.seen), s.more)
}
