//go:build unix

package tests

import (
	"cmp"
	"context"
	"fmt"
	"io"
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
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// The processes of a pair that are killed.
const (
	ofCortex    = "Cortex"
	ofAgent     = "its agent"
	ofBridge    = "the bridge"
	ofPeer      = "the peer"
	ofPeerAgent = "the peer's agent"
)

var a2aProcesses = []string{ofCortex, ofAgent, ofBridge, ofPeer, ofPeerAgent}

// The agents of a pair's Cortex: one of its own, and the peer's.
const (
	nearAgent = "near"
	farAgent  = "far"
)

// pair is a Cortex with keys, which is an A2A server, and a second one, which is an A2A server too and an agent of the first by a bridge. Each has a
// laborer. Any of these processes can be killed.
type pair struct {
	t         *testing.T
	dir       string
	web, rpc  map[string]string // addresses, of Cortex and the peer
	tokens    map[string]string // of people
	processes map[string]*process
	hooks     *hooks // nil: Cortex pushes nothing
}

// process is one that can be killed, and started again.
type process struct {
	start func() *exec.Cmd
	log   string // its standard error, of all its lives
	kills atomic.Int64

	mu     sync.Mutex
	now    *exec.Cmd
	killed bool
	ended  chan struct{}
}

// begin starts the process. Its end is an error unless it is killed.
func (p *process) begin(t *testing.T, name string) {
	c := p.start()
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Error(err)
	}
	log.Close()
	ended := make(chan struct{})
	p.mu.Lock()
	p.now, p.killed, p.ended = c, false, ended
	p.mu.Unlock()
	go func() {
		defer close(ended)
		err := c.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.killed {
			t.Errorf("%s has ended by itself (%v):\n%s", name, err, endOf(p.log))
		}
	}()
}

// kill ends the process, as kill -9 does.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	_ = p.now.Process.Kill()
	ended := p.ended
	p.mu.Unlock()
	<-ended
}

// endOf returns the end of a file.
func endOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-1500):])
}

// newPair starts a pair, of which these people have keys.
func newPair(t *testing.T, people ...string) *pair {
	t.Helper()
	cortex := cortexPath(t)
	p := &pair{
		t: t, dir: cmp.Or(os.Getenv("A2A_DIR"), t.TempDir()), tokens: map[string]string{}, processes: map[string]*process{},
		web: map[string]string{ofCortex: freeAddress(t), ofPeer: freeAddress(t)}, rpc: map[string]string{ofCortex: freeAddress(t), ofPeer: freeAddress(t)},
	}
	data := map[string]string{ofCortex: filepath.Join(p.dir, "cortex"), ofPeer: filepath.Join(p.dir, "peer")}
	auth := filepath.Join(data[ofCortex], "auth")
	run := func(of string, args ...string) *exec.Cmd {
		return exec.Command(cortex, append(args, "--data", data[of])...)
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(ofCortex, args...).Output()
		if err != nil {
			t.Fatalf("cortex %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	must("auth", "init")
	for _, agent := range []string{nearAgent, farAgent} {
		must("auth", "add", "agent", agent)
	}
	for _, name := range people {
		must("auth", "add", "user", name)
		p.tokens[name] = must("auth", "token", name)
	}
	options := []string{"--auth", auth}
	if help := must("serve", "--help"); strings.Contains(help, "--a2a-push-host") {
		p.hooks = newHooks(t)
		options = append(options, "--a2a-push-host", p.hooks.at)
	}
	serve := func(of string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			return run(of, append([]string{"serve", "--http", "none", "--a2a", p.web[of], "--a2a-grpc", p.rpc[of], "--agents", "none", "--sync", "always"}, args...)...)
		}
	}
	labor := func(of, name string, args ...string) func() *exec.Cmd {
		card := filepath.Join(p.dir, name+".yaml")
		writeFile(t, card, "name: "+name+"\ndescription: does what it is told\nskills: [{id: labor, name: labor, description: does what it is told}]\n")
		return func() *exec.Cmd {
			all := append([]string{"agent", "exec", "--card", card, "--protocol", "jsonl", "--keep"}, args...)
			all = append(all, "--data", data[of], "--", "laborer", p.notes(name))
			return exec.Command(cortex, all...)
		}
	}
	creds := func(agent string) []string {
		return []string{"--creds", filepath.Join(auth, "tenants", "_", "agents", agent+".creds")}
	}
	for name, start := range map[string]func() *exec.Cmd{
		ofCortex: serve(ofCortex, options...), ofPeer: serve(ofPeer),
		ofAgent: labor(ofCortex, nearAgent, creds(nearAgent)...), ofPeerAgent: labor(ofPeer, farAgent),
		ofBridge: func() *exec.Cmd {
			return run(ofCortex, append([]string{"agent", "a2a", "http://" + p.web[ofPeer] + "/agents/" + farAgent}, creds(farAgent)...)...)
		},
	} {
		p.processes[name] = &process{start: start, log: filepath.Join(p.dir, strings.ReplaceAll(name, " ", "-")+".log")}
	}
	t.Cleanup(func() {
		for name, one := range p.processes {
			if one.now != nil {
				one.kill()
			}
			if t.Failed() {
				t.Logf("%s:\n%s", name, endOf(one.log))
			}
		}
	})
	begin := func(name string) { p.processes[name].begin(t, name) }
	begin(ofPeer)
	begin(ofPeerAgent)
	p.joins(ofPeer, farAgent)
	begin(ofCortex)
	begin(ofAgent)
	begin(ofBridge)
	p.joins(ofCortex, nearAgent)
	p.joins(ofCortex, farAgent)
	return p
}

// notes is the file with what a laborer has begun.
func (p *pair) notes(agent string) string { return filepath.Join(p.dir, agent+".notes") }

// begun returns how often an agent has begun each text.
func (p *pair) begun(agent string) map[string]int {
	b, err := os.ReadFile(p.notes(agent))
	if err != nil && !os.IsNotExist(err) {
		p.t.Error(err)
	}
	all := map[string]int{}
	for line := range strings.Lines(string(b)) {
		all[strings.TrimSuffix(line, "\n")]++
	}
	return all
}

// again kills a process, and starts it again.
func (p *pair) again(name string) {
	one := p.processes[name]
	one.kill()
	one.kills.Add(1)
	one.begin(p.t, name)
}

// joins waits until an agent can be given work.
func (p *pair) joins(of, agent string) {
	p.t.Helper()
	p.eventually(time.Minute, agent+" joins", func() bool {
		res, err := http.Get("http://" + p.web[of] + "/agents/" + agent + "/.well-known/agent-card.json") //nolint:noctx // of a test
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func (p *pair) eventually(limit time.Duration, what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(limit); !is(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: it does not happen", what)
		}
	}
}

var a2aBindings = []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC}

// join returns a client of an agent of Cortex or the peer.
func (p *pair) join(of, agent string, binding a2a.TransportProtocol) *a2aclient.Client {
	p.t.Helper()
	at := &a2a.AgentInterface{URL: "http://" + p.web[of] + "/agents/" + agent, ProtocolBinding: binding, ProtocolVersion: a2a.Version}
	if binding == a2a.TransportProtocolGRPC {
		at.URL, at.Tenant = p.rpc[of], agent
	}
	hc := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	p.t.Cleanup(hc.CloseIdleConnections)
	soon := backoff.DefaultConfig
	soon.BaseDelay, soon.MaxDelay = 20*time.Millisecond, 200*time.Millisecond
	c, err := a2aclient.NewFromEndpoints(p.t.Context(), []*a2a.AgentInterface{at}, a2aclient.WithJSONRPCTransport(hc), a2aclient.WithRESTTransport(hc),
		a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: time.Second})))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Destroy() })
	return c
}

// speaks returns ctx for the calls of somebody, with an Idempotency-Key unless that is "".
func (p *pair) speaks(ctx context.Context, user, key string) context.Context {
	with := a2aclient.ServiceParams{}
	if user != "" {
		with["authorization"] = []string{"Bearer " + p.tokens[user]}
	}
	if key != "" {
		with["idempotency-key"] = []string{key}
	}
	return a2aclient.AttachServiceParams(ctx, with)
}

// tasks returns all tasks of somebody with an agent, by the first text of each.
func (p *pair) tasks(ctx context.Context, of, agent, user string) (map[string][]*a2a.Task, error) {
	c, all := p.join(of, agent, a2a.TransportProtocolJSONRPC), map[string][]*a2a.Task{}
	req := &a2a.ListTasksRequest{PageSize: 100}
	for {
		list, err := c.ListTasks(p.speaks(ctx, user, ""), req)
		if err != nil {
			return nil, fmt.Errorf("the tasks of %s at %s: %w", user, of, err)
		}
		for _, task := range list.Tasks {
			first := ""
			if len(task.History) > 0 {
				first = task.History[0].Parts[0].Text()
			}
			all[first] = append(all[first], task)
		}
		if req.PageToken = list.NextPageToken; req.PageToken == "" {
			return all, nil
		}
	}
}
