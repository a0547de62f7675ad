package repl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	xterm "golang.org/x/term"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// The chat is tested in a separate process with a real terminal, so that signals and terminal modes are real. That process is this test binary; it
// executes orders that the test sends it line by line.

const childEnv = "REPL_TEST_CHILD"

// patience bounds every wait; only failing tests reach it.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// order is an order of the test to the child.
type order struct {
	Do, ID, Agent, Text string
	N                   int
}

// heard is a report of the child to the test: what Cortex has received.
type heard struct{ Kind, Text, Context, Task, Turn string }

// child runs the chat, and a Cortex that follows orders.
func child() int {
	orders, reports := os.NewFile(3, "orders"), os.NewFile(4, "reports")
	bus := memory.New(nil)
	defer bus.Close()
	s := &clienttest.Script{Bus: bus}
	var mu sync.Mutex
	var said *transport.Event
	stop := s.Serve(func(e *transport.Event) {
		h := heard{Kind: "message", Text: clienttest.Text(e), Context: e.ContextID, Task: string(e.TaskID)}
		mu.Lock()
		defer mu.Unlock()
		if x, ok := e.Payload.(*transport.Cancel); ok {
			h.Kind, h.Turn = "cancel", x.Turn
		} else {
			said = e
		}
		b, _ := json.Marshal(h)
		_, _ = reports.Write(append(b, '\n'))
	})
	defer stop()
	s.Announce(clienttest.Card("agent_clock", "1", "Knows the time. And more."))
	go func() {
		in := bufio.NewScanner(orders)
		in.Buffer(nil, 4<<20)
		for in.Scan() {
			var o order
			if err := json.Unmarshal(in.Bytes(), &o); err != nil {
				panic(err)
			}
			mu.Lock()
			e := said
			mu.Unlock()
			follow(s, &o, e)
		}
	}()

	cfg := Config{
		Client:   &client.Client{Transport: bus, Grace: 50 * time.Millisecond},
		Backend:  childBackend(),
		Terminal: true, Name: "cortex", Version: "1.2.3", Where: "in this process", ContextID: "ctx-1", History: os.Getenv("REPL_TEST_HISTORY"),
		Decides: os.Getenv("REPL_TEST_DECIDES"), Theme: os.Getenv("REPL_TEST_THEME"), Keys: os.Getenv("REPL_TEST_KEYS"),
	}
	ctx, done := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer done()
	err := Run(ctx, cfg)
	switch {
	case errors.Is(err, context.Canceled):
		return 143
	case errors.Is(err, ErrInterrupted):
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// follow executes an order.
func follow(s *clienttest.Script, o *order, said *transport.Event) {
	switch o.Do {
	case "delta":
		s.Delta(said, o.ID, o.Text)
	case "task":
		s.Task(said, a2a.TaskID(o.ID), o.Agent, o.Text)
	case "progress":
		s.Progress(said, a2a.TaskID(o.ID), o.Agent, o.Text)
	case "text":
		s.Live(said, o.Agent, &a2a.TaskArtifactUpdateEvent{
			TaskID: a2a.TaskID(o.ID), ContextID: said.ContextID, Append: o.N > 0,
			Artifact: &a2a.Artifact{ID: transport.TextArtifact, Parts: a2a.ContentParts{a2a.NewTextPart(o.Text)}},
		})
	case "completed":
		s.Settle(said, a2a.TaskID(o.ID), a2a.TaskStateCompleted, "")
	case "again":
		u := clienttest.StatusUpdate(said.ContextID, a2a.TaskID(o.ID), a2a.TaskStateSubmitted, o.Text)
		u.Metadata = map[string]any{transport.MetaTurn: clienttest.TurnOf(said), transport.MetaAgentID: o.Agent, transport.MetaAttempt: o.N}
		s.Live(said, transport.Cortex, u)
	case "failed":
		s.Settle(said, a2a.TaskID(o.ID), a2a.TaskStateFailed, o.Text)
	case "asks":
		s.Settle(said, a2a.TaskID(o.ID), a2a.TaskStateInputRequired, o.Text)
	case "consent":
		s.Settle(said, a2a.TaskID(o.ID), a2a.TaskStateAuthRequired, "")
	case "canceled":
		s.Settle(said, a2a.TaskID(o.ID), a2a.TaskStateCanceled, o.Text)
	case "answer":
		s.Answer(said, o.Text)
	case "failure":
		m := clienttest.AnswerTo(said, o.Text)
		m.Metadata[transport.MetaFailed] = true
		s.Live(said, transport.Cortex, m)
	case "give back": // returns the files that were attached
		m := clienttest.AnswerTo(said, o.Text)
		m.Parts = append(m.Parts, transport.FilesOf(said.Payload.(*a2a.Message).Parts)...)
		s.Live(said, transport.Cortex, m)
	case "join":
		s.Announce(clienttest.Card(o.ID, "1", o.Text))
	case "other":
		s.Announce(clienttest.Card(o.ID, "2", o.Text))
	case "leave":
		s.Announce(&transport.Card{AgentID: o.ID, Instance: "1", Gone: transport.GoneLeft})
	case "burst":
		for i := range o.N {
			s.Announce(clienttest.Card(fmt.Sprintf("%s_%02d", o.ID, i), "1", o.Text))
		}
	default:
		panic(o.Do)
	}
}

func childBackend() Backend {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Backend{
		Agents: func(context.Context) ([]AgentInfo, error) {
			return []AgentInfo{
				{ID: "agent_clock", Description: "Knows the time in every city of the world, and how far they are apart from each other.", State: "active", LastSeen: "3 s ago", Skills: []string{"time", "zones"}},
				{ID: "agent_evil", Description: "red \x1b[31malert\x1b]0;owned\x07 and\r\nmore", State: "stale", LastSeen: "2 min ago"},
			}, nil
		},
		Conversations: func(context.Context) ([]ConversationInfo, error) {
			return []ConversationInfo{
				{ContextID: "ctx-1", Title: "this", Updated: time.Now(), Turns: "1"},
				{ContextID: "0193b2f0-aaaa-7000-8000-000000000001", Title: "what time is it in Tokyo and in Berlin and in Paris and in Rome", Updated: time.Now().Add(-3 * time.Hour), Turns: "12"},
			}, nil
		},
		History: func(_ context.Context, contextID string) iter.Seq2[*client.Line, error] {
			return func(yield func(*client.Line, error) bool) {
				_ = yield(&client.Line{Time: at, Kind: client.LineUser, Text: "what time is it?"}, nil) &&
					yield(&client.Line{Time: at, Kind: client.LineTask, Who: "agent_clock", Text: "time"}, nil) &&
					yield(&client.Line{Time: at, Kind: client.LineResult, Who: "agent_clock", Text: "noon\x1b[31m\nsharp"}, nil) &&
					yield(&client.Line{Time: at, Kind: client.LineAnswer, Text: "noon"}, nil)
			}
		},
		Why:    func(context.Context, string) (string, error) { return "respond: because \x1b[2Jnothing fits", nil },
		Prompt: func(_ context.Context, _, text string) (string, error) { return "PROMPT for " + text, nil },
		Tasks: func(_ context.Context, contextID string) ([]TaskInfo, string, error) {
			if contextID != "ctx-1" {
				return []TaskInfo{{ID: "task-5", Agent: "agent_map", State: a2a.TaskStateInputRequired, Text: "the way", Started: time.Now()}}, "", nil
			}
			return []TaskInfo{{ID: "task-77", Agent: "agent_clock", State: a2a.TaskStateWorking, Text: "what time", Started: time.Now()}}, "… and those of 26 turns before: `cortex conversations history c`", nil
		},
	}
}

// terminal is a chat on a screen.
type terminal struct {
	t       *testing.T
	cmd     *exec.Cmd
	pty     *os.File
	orders  io.WriteCloser
	reports chan heard

	mu     sync.Mutex
	screen vt10x.Terminal
	raw    bytes.Buffer
	gone   chan struct{} // closed when the screen no longer changes
}

// open starts a chat on a terminal with this many columns, with additional environment variables.
func open(t *testing.T, cols int, env ...string) *terminal {
	t.Helper()
	const rows = 40
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reportsR, reportsW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{
		t: t, cmd: exec.Command(os.Args[0]), orders: ordersW, reports: make(chan heard, 64),
		screen: vt10x.New(vt10x.WithSize(cols, rows)), gone: make(chan struct{}),
	}
	term.cmd.Env = append(os.Environ(), append([]string{childEnv + "=1", "TERM=xterm-256color", "NO_COLOR="}, env...)...)
	term.cmd.ExtraFiles = []*os.File{ordersR, reportsW}
	term.pty, err = pty.StartWithSize(term.cmd, &pty.Winsize{Rows: rows, Cols: uint16(cols)})
	if err != nil {
		t.Fatal(err)
	}
	ordersR.Close()
	reportsW.Close()
	go func() {
		defer close(term.gone)
		b := make([]byte, 4096)
		for {
			n, err := term.pty.Read(b)
			term.mu.Lock()
			_, _ = term.screen.Write(b[:n])
			term.raw.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(term.reports)
		in := bufio.NewScanner(reportsR)
		in.Buffer(nil, 4<<20)
		for in.Scan() {
			var h heard
			if err := json.Unmarshal(in.Bytes(), &h); err != nil {
				panic(err)
			}
			term.reports <- h
		}
		reportsR.Close()
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		<-term.gone
		_ = term.cmd.Wait()
		term.pty.Close()
		ordersW.Close()
		if strings.Contains(term.output(), "DATA RACE") {
			t.Errorf("data race in the chat:\n%s", term.output())
		}
		if t.Failed() {
			t.Logf("screen:\n%s", term.text())
		}
	})
	term.wait("the prompt", func(s string) bool { return strings.HasSuffix(s, "\n>") })
	return term
}

// text returns the screen without trailing spaces and empty lines.
func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	lines := strings.Split(term.screen.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \x00")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// output returns everything that was written to the terminal.
func (term *terminal) output() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.raw.String()
}

// wait polls the screen until ok is true.
func (term *terminal) wait(what string, ok func(screen string) bool) {
	term.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for !ok(term.text()) {
		select {
		case <-tick.C:
		case <-deadline.C:
			term.t.Fatalf("%s did not appear", what)
		}
	}
}

// shows waits for text on the screen.
func (term *terminal) shows(text string) {
	term.t.Helper()
	term.wait(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

// says waits until the screen has text, wherever its lines are broken: the path of a file in it may be of any length.
func (term *terminal) says(text string) {
	term.t.Helper()
	term.wait(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(strings.Join(strings.Fields(s), " "), text) })
}

// prompts waits until the last line of the screen is the prompt with text.
func (term *terminal) prompts(text string) {
	term.t.Helper()
	want := strings.TrimRight("> "+text, " ")
	term.wait(fmt.Sprintf("the prompt with %q", text), func(s string) bool { return s[strings.LastIndexByte(s, '\n')+1:] == want })
}

// keys types.
func (term *terminal) keys(s string) {
	term.t.Helper()
	if _, err := io.WriteString(term.pty, s); err != nil {
		term.t.Fatal(err)
	}
}

// say types a message and returns what Cortex has received.
func (term *terminal) say(s string) heard {
	term.t.Helper()
	term.keys(s + "\r")
	return term.heard()
}

func (term *terminal) heard() heard {
	term.t.Helper()
	select {
	case h, ok := <-term.reports:
		if !ok {
			term.t.Fatal("the chat has ended")
		}
		return h
	case <-time.After(patience):
		term.t.Fatal("nothing came to Cortex")
	}
	panic("unreachable")
}

func (term *terminal) order(o order) {
	term.t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		term.t.Fatal(err)
	}
	if _, err := term.orders.Write(append(b, '\n')); err != nil {
		term.t.Fatal(err)
	}
}

// modes returns the terminal's modes, such as raw.
func (term *terminal) modes() *xterm.State {
	term.t.Helper()
	s, err := xterm.GetState(int(term.pty.Fd()))
	if err != nil {
		term.t.Fatal(err)
	}
	return s
}

// freshModes returns the modes of an unused terminal.
func freshModes(t *testing.T) *xterm.State {
	t.Helper()
	p, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer tty.Close()
	s, err := xterm.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exits waits for the end of the chat and returns its exit status.
func (term *terminal) exits() int {
	term.t.Helper()
	select {
	case <-term.gone:
	case <-time.After(patience):
		term.t.Fatal("the chat does not end")
	}
	_ = term.cmd.Wait()
	return term.cmd.ProcessState.ExitCode()
}
