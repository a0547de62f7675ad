package nats

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// With envDir in its environment, the test binary is a server that ends at the end of its standard input; with envServe it is also an orchestrator
// in the same process, which writes every handled event to its standard output.
const (
	envDir    = "CORTEX_TEST_SERVER_DIR"
	envListen = "CORTEX_TEST_SERVER_LISTEN"
	envServe  = "CORTEX_TEST_SERVER_SERVE"
	envConfig = "CORTEX_TEST_SERVER_CONFIG" // of nats-server, instead of the options above
)

func TestMain(m *testing.M) {
	run := runServer
	switch {
	case os.Getenv(envReplica) != "":
		run = runReplica
	case os.Getenv(envDir) == "":
		os.Exit(m.Run())
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runServer() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	start := func() (*Server, error) {
		if config := os.Getenv(envConfig); config != "" {
			return StartConfig(ctx, config, nil)
		}
		return StartServer(ctx, &ServerOptions{Dir: os.Getenv(envDir), Listen: os.Getenv(envListen), Inspect: inspect})
	}
	srv, err := start()
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	fmt.Println(srv.URL())
	if os.Getenv(envServe) == "" {
		<-ctx.Done()
		return nil
	}
	b, err := Dial(ctx, &Options{Server: srv})
	if err != nil {
		return err
	}
	sub, err := b.Subscribe(ctx, orchestratorInbox, nil)
	if err != nil {
		return err
	}
	err = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error {
		fmt.Printf("%s %s\n", e.ContextID, text(e))
		return nil
	})
	return errors.Join(err, b.Close())
}

var orchestratorInbox = transport.Inbox("", transport.Cortex)

// process is a server, perhaps with an orchestrator, that can be killed.
type process struct {
	dir, listen string
	handled     func(contextID, words string) // makes it an orchestrator
	env         []string                      // additional variables

	url  string
	kill func() // kills it and waits for its end
}

func (p *process) start(t *testing.T) {
	t.Helper()
	// What a killed one has listened on may be taken by somebody else for a while.
	for end := time.Now().Add(time.Minute); !p.begin(t); <-time.After(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server did not start")
		}
	}
}

// begin starts the process, and reports whether its server has started.
func (p *process) begin(t *testing.T) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envDir+"="+p.dir, envListen+"="+p.listen)
	cmd.Env = append(cmd.Env, p.env...)
	if p.handled != nil {
		cmd.Env = append(cmd.Env, envServe+"=yes")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if contextID, words, ok := strings.Cut(lines.Text(), " "); ok {
				p.handled(contextID, words)
			} else {
				url <- lines.Text()
			}
		}
	}()
	var once sync.Once
	p.kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			<-ended
			_ = cmd.Wait()
			_ = in.Close()
		})
	}
	t.Cleanup(p.kill)
	select {
	case p.url = <-url:
		return true
	case <-ended:
		return false
	}
}

// tally checks that the events of each conversation are handled in order. Events may repeat.
type tally struct {
	t    *testing.T
	mu   sync.Mutex
	next map[string]int
	all  int
}

func (y *tally) handled(contextID, words string) {
	i, err := strconv.Atoi(words)
	if err != nil {
		y.t.Error(err)
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if i > y.next[contextID] {
		y.t.Errorf("conversation %s: %d came, want %d", contextID, i, y.next[contextID])
	}
	if i == y.next[contextID] {
		y.next[contextID]++
		y.all++
	}
}

func (y *tally) total() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.all
}

// TestKilled kills the server repeatedly while events are published and handled, by an orchestrator in another process or in the server's: no event
// is lost, and every conversation keeps its order.
func TestKilled(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(map[bool]string{false: "server", true: "server and orchestrator"}[together], func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			p := &process{dir: t.TempDir(), listen: l.Addr().String()}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			y := &tally{t: t, next: map[string]int{}}
			if together {
				p.handled = y.handled
			}
			p.start(t)
			if !together {
				orchestrator, err := Dial(t.Context(), &Options{URL: p.url})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = orchestrator.Close() }()
				defer serveTopic(t, orchestrator, orchestratorInbox, nil, func(e *transport.Event) error {
					y.handled(e.ContextID, text(e))
					return nil
				})()
			}
			stop := publishers(t, p.url)
			for i := range 5 { // while events are handled
				mark := y.total() + 50 + 97*i
				eventually(t, "events are handled", func() bool { return y.total() > mark })
				p.kill()
				p.start(t)
			}
			sent := stop()
			eventually(t, "every event was handled", func() bool { return y.total() == sent })
		})
	}
}

// publishers publish in eight conversations at once, until the returned function is called, which returns the number of events.
func publishers(t *testing.T, url string) (stop func() int) {
	t.Helper()
	b, err := Dial(t.Context(), &Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var sent atomic.Int64
	for c := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				e := message(orchestratorInbox, strconv.Itoa(c), strconv.Itoa(i))
				err := b.Publish(t.Context(), orchestratorInbox, e)
				for errors.Is(err, transport.ErrUnavailable) {
					err = b.Publish(t.Context(), orchestratorInbox, e)
				}
				if err != nil {
					t.Errorf("Publish = %v", err)
					return
				}
				sent.Add(1)
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		return int(sent.Load())
	}
}

// TestSubscriberKilled kills the orchestrator while it holds events of many conversations, some of them handled. The next one gets the rest in
// order and at once, not after AckWait.
func TestSubscriberKilled(t *testing.T) {
	n := newNode(t, ServerOptions{})
	user, first := n.dial(t, nil), n.dial(t, nil)
	topic := transport.Inbox("", transport.Cortex)
	const conversations, each, done = 10, 8, 3
	var wg sync.WaitGroup
	wg.Add(conversations)
	stuck := make(chan struct{})
	serveTopic(t, first, topic, nil, func(e *transport.Event) error {
		if i, _ := strconv.Atoi(text(e)); i == done {
			wg.Done()
			<-stuck
		}
		return nil
	})
	for i := range each {
		for c := range conversations {
			publish(t, user, topic, fmt.Sprint("c", c), fmt.Sprint(i))
		}
	}
	wg.Wait()
	eventually(t, "what was handled is acknowledged", func() bool {
		left, err := user.Waiting(t.Context(), topic)
		return err == nil && left == conversations*(each-done)
	})
	n.Kill(t, first)
	publish(t, user, topic, "c0", fmt.Sprint(each))

	begin := time.Now()
	second := n.dial(t, nil)
	got := make(chan *transport.Event, 1000)
	serveTopic(t, second, topic, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	next := map[string]int{}
	for range conversations*(each-done) + 1 {
		e := receive(t, got)
		if want := fmt.Sprint(done + next[e.ContextID]); text(e) != want {
			t.Errorf("%s: %s came, want %s", e.ContextID, text(e), want)
		}
		next[e.ContextID]++
	}
	if took := time.Since(begin); took > ackWait(topic)*2/3 {
		t.Errorf("it took %v, want it at once", took)
	}
	close(stuck)
}
