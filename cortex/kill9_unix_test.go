//go:build unix

package cortex_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// serveEnv makes the test binary run an orchestrator with an embedded server, as a process that can be killed. Its value
// is "DIR LISTEN STEP WHAT": the store, the address, the step at which the process kills itself, or 0, and which turns it runs.
const serveEnv = "CORTEX_TEST_SERVE"

func TestMain(m *testing.M) {
	if args := os.Getenv(serveEnv); args != "" {
		if err := serveChild(args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serveChild(args string) error {
	var dir, listen, what string
	m := &mortal{die: func() error {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}}
	if _, err := fmt.Sscan(args, &dir, &listen, &m.dieAt, &what); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := nats.StartServer(ctx, &nats.ServerOptions{Dir: dir, Listen: listen})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	bus, err := nats.Dial(ctx, &nats.Options{Server: server})
	if err != nil {
		return err
	}
	defer bus.Close()
	store, err := jetstore.Open(ctx, bus.Conn(), nil)
	if err != nil {
		return err
	}
	decider, offer := llm.Decider(frugal(oneStep)), offered
	if what == "retries" {
		decider, offer = askingBack, hurried
	}
	cfg := cortex.Config{Transport: bus, Store: store, Decider: decider, Agents: offer}
	if what == "patterns" {
		decider, cfg = bidThenSwarm, patternConfig(cfg)
	}
	cfg = mortalConfig(cfg, m)
	cfg.Decider = decider // it has no effects: TestKilledAtEveryStep kills it too
	orch, err := cortex.New(cfg)
	if err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, os.Stdin) // until the parent closes it or dies
		cancel()
	}()
	fmt.Println(server.URL())
	return orch.Run(ctx)
}

// child is a running serveChild.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
	ended chan struct{}
}

func startChild(t *testing.T, dir, listen string, dieAt int, what string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+strings.Join([]string{dir, listen, strconv.Itoa(dieAt), what}, " "))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		cmd.Wait() //nolint:errcheck // it was killed
		close(c.ended)
	}()
	t.Cleanup(c.stop)
	if err != nil {
		t.Fatalf("the child did not come up: %v", err)
	}
	c.url = strings.TrimSpace(url)
	return c
}

// stop ends the child gracefully.
func (c *child) stop() {
	c.stdin.Close()
	<-c.ended
}

// join connects to the child's server.
func (c *child) join(t *testing.T) (*nats.Bus, *jetstore.Store) {
	t.Helper()
	bus, err := nats.Dial(t.Context(), &nats.Options{URL: c.url, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	store, err := jetstore.Open(t.Context(), bus.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return bus, store
}

// TestKill9AtEveryStep kills a process that runs server and orchestrator, with SIGKILL, before and after each step of the
// orchestrator in a turn; another process takes over its folder. Each turn is answered exactly once.
func TestKill9AtEveryStep(t *testing.T) {
	t.Parallel()
	kill9AtEveryStep(t, "turns", serveAlpha, regexp.MustCompile("^alpha COMPLETED did work; $"), 2, 1, func(store *jetstore.Store, turns int) { wantAccounts(t, store, turns) })
}

// kill9AtEveryStep kills the process at each step of a turn, or at one in stride, with agents that serve runs. Each turn has this answer, and this many entries.
func kill9AtEveryStep(t *testing.T, what string, serve func(*testing.T, transport.Transport), want *regexp.Regexp, each, stride int, end func(store *jetstore.Store, turns int)) {
	dir := filepath.Join(t.TempDir(), "store")
	c := startChild(t, dir, "127.0.0.1:0", 0, what)
	listen := strings.TrimPrefix(c.url, "nats://")
	bus, store := c.join(t)
	serve(t, bus)

	for at, turns := 1, 1; ; at, turns = at+stride, turns+1 {
		c.stop()
		c = startChild(t, dir, listen, at, what)
		turn := fmt.Sprintf("m%d", at)
		killed, published := false, false
		poll := time.NewTicker(10 * time.Millisecond)
		var log []*conversation.Entry // as it was with the answer: the process may be killed right after
		for deadline := time.Now().Add(3 * time.Minute); log == nil; <-poll.C {
			if time.Now().After(deadline) {
				t.Fatalf("killed at step %d: no answer within three minutes", at)
			}
			if !published { // the process may be killed before it acknowledges the message: send it again
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				published = bus.Publish(ctx, transport.Inbox("", transport.Cortex), userEvent(turn, "work")) == nil
				cancel()
			}
			if !killed && c.hasEnded() {
				killed = true
				c = startChild(t, dir, listen, 0, what)
			}
			log = answered(t, store, turn)
		}
		poll.Stop()
		if got := answersOf(t, log)[turn]; !want.MatchString(got) {
			t.Errorf("killed at step %d: answer %q, want %v", at, got, want)
		}
		if n := len(log); n != each*turns {
			t.Fatalf("killed at step %d: %d entries after %d turns, want %d", at, n, turns, each*turns)
		}
		if c.stop(); !killed && !c.killed() { // there is no such step any more
			startChild(t, dir, listen, 0, what)
			for poll := time.NewTicker(10 * time.Millisecond); answered(t, store, turn) == nil; <-poll.C {
			} // until this connection is back
			end(store, turns)
			if at < 20 {
				t.Errorf("the turn had only %d steps: the fatal step is not everywhere", at)
			}
			return
		}
	}
}

// wantAccounts checks that the log contains the cost of each turn once, and the spend log at least once.
func wantAccounts(t *testing.T, s *jetstore.Store, turns int) {
	t.Helper()
	var logged llm.Usage
	summaries := 0
	for _, e := range entries(t, s) {
		if e.Summary != nil {
			summaries++
		}
		logged = logged.Add(e.Usage)
		if e.Decision != nil {
			logged = logged.Add(e.Decision.Usage)
		}
	}
	conv, err := storage.Load(t.Context(), s, "", theContext)
	if err != nil {
		t.Fatal(err)
	}
	if want := times(2*turns+summaries, each); summaries < turns-1 || logged != want || conv.Usage != want {
		t.Errorf("%d turns with %d summaries cost %+v in the log, %+v in its fold, want %+v", turns, summaries, logged, conv.Usage, want)
	}
	var spent llm.Usage
	for _, at := range []time.Time{time.Now().Add(-24 * time.Hour), time.Now()} { // midnight may have passed
		u, err := s.Spent(t.Context(), "", at.UTC().Format(time.DateOnly))
		if err != nil {
			t.Fatal(err)
		}
		spent = spent.Add(u)
	}
	if spent.Tokens() < logged.Tokens() {
		t.Errorf("the spend log has %d tokens, the log %d", spent.Tokens(), logged.Tokens())
	}
}

// killed reports whether the child, which has ended, was killed.
func (c *child) killed() bool {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

func (c *child) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// answered returns the log with the answer to the user's message with this id; nil while there is none, or the server is unavailable.
func answered(t *testing.T, s storage.Store, id string) []*conversation.Entry {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	log, err := readLog(ctx, s)
	if err != nil {
		return nil
	}
	if _, ok := answersOf(t, log)[id]; !ok {
		return nil
	}
	return log
}

// serveAlpha runs the agent alpha, which outlives the children.
func serveAlpha(t *testing.T, bus transport.Transport) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		card := &a2a.AgentCard{Name: "alpha", Version: "1.0.0", Skills: []a2a.AgentSkill{{ID: "skill", Name: "Skill"}}}
		done <- agents.Serve(ctx, bus, card, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
			return agents.Text("did " + task.Text()), nil
		}), nil)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}
