package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

// asAgent is the folder of an agent that the test binary is, when this is set.
const asAgent = "MCP_TEST_AGENT"

// kills is how often something is killed; MCP_KILLS says another number.
const kills = 12

// given is a task for an agent that is a process of its own.
type given struct {
	ID       string `json:"id"`
	Delivery int    `json:"delivery"`
}

// ready is what an agent says when it takes tasks.
const ready = "ready"

type outcome struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Err  string `json:"err"`
}

// runAgent is an agent that takes tasks on its standard input, and answers on its standard output.
func runAgent(dir string) error {
	s := &mcp.Server{Name: "test", Argv: []string{os.Args[0]}, Env: []string{asServer + "=1"}, Inherit: true}
	a, err := mcp.Open(context.Background(), s, &mcp.Options{Dir: dir})
	if err != nil {
		return err
	}
	go a.Run(context.Background())
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := out.Encode(outcome{ID: ready}); err != nil {
		return err
	}
	for {
		var g given
		if err := in.Decode(&g); err != nil {
			return err
		}
		t := task(g.ID, "message of "+g.ID, "note", g.ID, nil)
		t.Delivery = g.Delivery
		o := outcome{ID: g.ID}
		for e, err := range a.Execute(context.Background(), t) {
			if err != nil {
				o.Err = err.Error()
			} else if u, ok := e.(*a2a.TaskStatusUpdateEvent); ok {
				o.Text = transport.Text(u.Status.Message.Parts)
			}
		}
		if err := out.Encode(o); err != nil {
			return err
		}
	}
}

// TestKilled kills an agent, or its server, at random while a tool writes lines to a file, and gives each task again until there is an answer, as Cortex
// does. Each line is there once, or its task says that its outcome is unknown.
func TestKilled(t *testing.T) {
	n := kills
	if text := os.Getenv("MCP_KILLS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("MCP_KILLS: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	notes, pid := filepath.Join(dir, "notes"), filepath.Join(dir, "pid")
	known, unknown := 0, 0
	told := map[string]bool{} // that the line is there
	var a *agentProcess
	whole := time.Minute // how long an undisturbed task takes here and now: kills come within it and a little later. The first task is undisturbed.
	for killed, id := 0, 1; killed < n; id++ {
		g := given{ID: fmt.Sprintf("line-%d", id)}
		for answered := false; !answered; {
			if a == nil {
				a = startAgent(t, dir, notes, pid)
			}
			g.Delivery++
			a.give(t, g)
			began, until := time.Now(), whole
			if id > 1 {
				until = time.Duration(rnd.Int64N(int64(whole + whole/4)))
			}
			var o outcome
			select {
			case o = <-a.outcomes:
				answered = o.ID != ""
			case <-time.After(until):
				killed++
				if rnd.IntN(2) == 0 { // the server alone
					if b, err := os.ReadFile(pid); err == nil {
						if server, err := strconv.Atoi(string(b)); err == nil {
							kill(server)
						}
					}
					o, answered = <-a.outcomes, true
				} else {
					a.cmd.Process.Kill()
				}
			}
			if answered && o.ID == "" { // it ended
				answered = false
			}
			if !answered {
				a.end()
				a = nil
				continue
			}
			switch {
			case o.ID != g.ID:
				t.Fatalf("an answer for %q, want %q", o.ID, g.ID)
			case o.Text == "noted "+g.ID:
				whole = time.Since(began)
				told[g.ID] = true
				known++
			case strings.Contains(o.Err, "the outcome is unknown"):
				unknown++
			default:
				t.Fatalf("%s: %+v", g.ID, o)
			}
		}
	}
	if a != nil {
		a.cmd.Process.Kill()
		a.end()
	}
	b, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for line := range strings.Lines(string(b)) {
		lines[strings.TrimSpace(line)]++
	}
	for line, n := range lines {
		if n > 1 {
			t.Errorf("%s is there %d times", line, n)
		}
	}
	for line := range told {
		if lines[line] != 1 {
			t.Errorf("%s was told to be there, and is %d times", line, lines[line])
		}
	}
	t.Logf("%d kills: %d lines were told to be there, %d tasks said that it is unknown, %d lines are there", n, known, unknown, len(lines))
}

// kill kills a process, which may have ended.
func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
		_ = p.Release()
	}
}

type agentProcess struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	outcomes chan outcome // closed when it has ended
}

func startAgent(t *testing.T, dir, notes, pid string) *agentProcess {
	t.Helper()
	a := &agentProcess{cmd: exec.Command(os.Args[0]), outcomes: make(chan outcome, 1)}
	a.cmd.Env = append(os.Environ(), asAgent+"="+dir, "NOTES="+notes, "PID="+pid, "DAWDLE=4ms", "GORACE=atexit_sleep_ms=1")
	a.cmd.Stderr = os.Stderr
	stdout, err := a.cmd.StdoutPipe()
	if err == nil {
		a.stdin, err = a.cmd.StdinPipe()
	}
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if o := <-a.outcomes; o.ID != ready {
			t.Fatalf("the agent begins with %+v", o)
		}
	}()
	go func() {
		defer close(a.outcomes)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var o outcome
			if json.Unmarshal(lines.Bytes(), &o) == nil {
				a.outcomes <- o
			}
		}
	}()
	return a
}

// give gives it a task; whether it takes it is seen by the answer.
func (a *agentProcess) give(t *testing.T, g given) {
	t.Helper()
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = a.stdin.Write(append(b, '\n'))
}

func (a *agentProcess) end() {
	for range a.outcomes {
	}
	_ = a.cmd.Wait()
}
