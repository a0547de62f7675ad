package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// asCortex has this test binary be Cortex itself.
const asCortex = "CORTEX_CONSOLE_TEST_AS_CORTEX"

// replica is a Cortex in a process of its own.
type replica struct {
	address, data string
	cmd           *exec.Cmd
}

func startReplica(t *testing.T, url, dir string, flags ...string) *replica {
	t.Helper()
	r := &replica{data: dir}
	self, err := os.Executable()
	must(t, err)
	r.cmd = exec.Command(self, append([]string{"serve", "--nats", url, "--data", dir, "--http", "127.0.0.1:0", "--agents", "none", "--log-format", "json"}, flags...)...)
	r.cmd.Env = append(os.Environ(), asCortex+"=1")
	log, err := os.Create(dir + ".log")
	must(t, err)
	r.cmd.Stderr = log
	must(t, r.cmd.Start())
	t.Cleanup(func() {
		r.kill()
		log.Close()
		if b, err := os.ReadFile(dir + ".log"); t.Failed() && err == nil {
			t.Logf("%s:\n%.4000s", dir, b)
		}
	})
	at := regexp.MustCompile(`http://([0-9.:]+)/readyz`)
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		said, err := os.ReadFile(dir + ".log")
		must(t, err)
		if found := at.FindSubmatch(said); found != nil {
			r.address = string(found[1])
		}
		answer, err := http.Get("http://" + r.address + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == 200 {
				return r
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not ready: %v", dir, err)
		}
	}
}

// token returns one that lets in once.
func (r *replica) token(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.data, "console.json"))
	must(t, err)
	var door struct{ Key []byte }
	must(t, json.Unmarshal(b, &door))
	return console.Token(door.Key, time.Now().Add(time.Minute))
}

func (r *replica) kill() {
	_ = r.cmd.Process.Kill() // it may be dead already
	_ = r.cmd.Wait()
}

// balancer forwards connections to one of several replicas, as a proxy does for all of them.
type balancer struct {
	net.Listener
	to atomic.Pointer[string]
}

func newBalancer(t *testing.T) *balancer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &balancer{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *b.to.Load())
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				all.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until either side ends
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return b
}

// TestReplicaIsKilled kills the replica that serves a browser while an agent works for it: the browser goes on with another replica, with the same
// session, and has everything once.
func TestReplicaIsKilled(t *testing.T) {
	openBrowser(t)
	dir := t.TempDir()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0"})
	must(t, err)
	t.Cleanup(server.Shutdown)
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: server.URL(), Name: "test"})
	must(t, err)
	t.Cleanup(func() { bus.Close() })
	one := startReplica(t, server.URL(), filepath.Join(dir, "one"))
	two := startReplica(t, server.URL(), filepath.Join(dir, "two"))
	goOn := make(chan struct{})
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	working.Go(func() {
		_ = agents.Serve(t.Context(), bus, &a2a.AgentCard{Name: "digger", Description: "Digs holes", Version: "1", Skills: []a2a.AgentSkill{
			{ID: "dig", Name: "Dig", Description: "Digs a hole", Tags: []string{"dig"}},
		}}, agents.Handler(func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
			task.Progress("one metre deep")
			select {
			case <-goOn:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return agents.Text("the hole is dug"), nil
		}), nil)
	})
	proxy := newBalancer(t)
	proxy.to.Store(&one.address)
	p := newTab(t)
	p.open(fmt.Sprintf("http://%s/?token=%s", proxy.Addr(), one.token(t)))
	p.says("What shall be done?")
	for end := time.Now().Add(patience); !strings.Contains(eval[string](p, "fetch('/agents').then(r => r.text())"), "digger") && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
	}
	p.say("@digger dig a hole")
	p.says("one metre deep")
	proxy.to.Store(&two.address)
	one.kill()
	close(goOn)
	p.says("the hole is dug")
	p.await("!document.querySelector('.offline, .is-open')")
	if n := eval[int](p, "document.body.innerText.split('the hole is dug').length - 1"); n != 1 {
		t.Errorf("the answer is there %d times", n)
	}
	p.say("@digger dig another hole")
	p.await("document.body.innerText.split('the hole is dug').length === 3")
	if n := eval[int](p, "document.querySelectorAll('.turn').length"); n != 2 {
		t.Errorf("there are %d turns, want 2", n)
	}
}
