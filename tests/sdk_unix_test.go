//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// sdkKills is how often TestSDKsUnderLoad kills something; SDK_KILLS sets another number.
const sdkKills = 6

// inEachLanguage runs a test with the worker in each language. One that is not on this machine is told of in a line, and is a failure in CI.
func inEachLanguage(t *testing.T, test func(t *testing.T, worker string)) {
	t.Helper()
	for interpreter, file := range map[string]string{"python3": "worker.py", "node": "worker.mjs"} {
		if here, err := isHere(os.Stderr, interpreter, t.Name()+" with "+file); !here {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		t.Run(interpreter, func(t *testing.T) {
			t.Parallel()
			path, err := filepath.Abs(filepath.Join("tests", "testdata", "sdk", file))
			if err != nil {
				t.Fatal(err)
			}
			test(t, path)
		})
	}
}

// yard is a Cortex and a worker, which are processes of their own.
type yard struct {
	t           *testing.T
	cortex, dir string
	worker      string
	log         *os.File // of the agent
}

func newYard(t *testing.T, worker string) *yard {
	t.Helper()
	cortex := cortexPath(t)
	y := &yard{t: t, cortex: cortex, dir: t.TempDir(), worker: worker}
	var err error
	if y.log, err = os.Create(filepath.Join(y.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = y.log.Close()
		if t.Failed() {
			t.Logf("the log of the worker:\n%s", read(t, y.log.Name()))
		}
	})
	return y
}

func (y *yard) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, y.cortex, append([]string{args[0], "--data", filepath.Join(y.dir, "data")}, args[1:]...)...)
	// The list is for each Cortex, also for those that `ask` starts while there is no other.
	c.Env = append(os.Environ(), "WORKER_PID="+filepath.Join(y.dir, "pid"), "CORTEX_WELL_KNOWN=tests/testdata/sdk/well-known.json")
	return c
}

func (y *yard) start(args ...string) *exec.Cmd {
	c := y.command(context.Background(), args...)
	if args[0] == "agent" {
		c.Stderr = y.log
	}
	if err := c.Start(); err != nil {
		y.t.Fatal(err)
	}
	return c
}

func (y *yard) serve() *exec.Cmd {
	return y.start("serve", "--agents", "echo", "--http", "none", "--sync", "always")
}

func (y *yard) agent() *exec.Cmd {
	return y.start("agent", "exec", "--card", "tests/testdata/sdk/card.yaml", "--protocol", "jsonl", "--keep", "--", y.worker)
}

// joined waits until the worker has joined.
func (y *yard) joined() {
	y.t.Helper()
	y.eventually(`"active"`, func() string { return y.output("agents", "show", "worker", "--json") })
}

func kill(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}

// eventually waits until what f returns has want.
func (y *yard) eventually(want string, f func() string) {
	y.t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(30 * time.Millisecond) {
		if got = f(); strings.Contains(got, want) {
			return
		}
	}
	y.t.Fatalf("it never has %q: %s", want, got)
}

func (y *yard) output(args ...string) string {
	out, _ := y.command(y.t.Context(), args...).CombinedOutput() // a failure is in words
	return string(out)
}

// TestSDKs has a worker in each language do all that the protocol has, for a real Cortex.
func TestSDKs(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, worker string) {
		y := newYard(t, worker)
		s, a := y.serve(), y.agent()
		defer func() { kill(a); kill(s) }()
		y.joined()
		writeFile(t, filepath.Join(y.dir, "note.txt"), "buy milk\n")
		ask := func(args ...string) string { return y.output(append([]string{"ask", "--agent", "worker"}, args...)...) }
		for want, args := range map[string][]string{
			"to be or\n":                        {"--skill", "work", "--output", filepath.Join(y.dir, "out"), "stream"},
			`"artifactId":"text"`:               {"--skill", "work", "--json", "stream"},
			"note.txt text/plain buy milk":      {"--skill", "work", "--file", filepath.Join(y.dir, "note.txt"), "read it"},
			"it says Echo: is it true?":         {"--skill", "work", "ask is it true?"},
			"not my work":                       {"--skill", "work", "refuse it"},
			"it is broken":                      {"--skill", "work", "crash"},
			"at most 1048576 can be said":       {"--skill", "work", "long"},
			"line 7":                            {"--skill", "slow", "number 7"},
			`{"label":"none","total":6.5}`:      {"--skill", "add", "--input", `{"numbers":[1,2,3],"more":{"a":0.5}}`},
			"the input: numbers must be a list": {"--skill", "add", "--input", `{"numbers":"many"}`},
		} {
			if got := ask(args...); !strings.Contains(got, want) {
				t.Errorf("%q: %.300q, want %q", args, got, want)
			}
		}
		if got := read(t, filepath.Join(y.dir, "out", "plot.txt")); got != "ein Plot: é\n" {
			t.Errorf("the file has %q", got)
		}
		// The question is answered when nothing of what asked it runs any more.
		if got := ask("--conversation", "q", "--skill", "work", "question fish"); !strings.Contains(got, "Which one?") {
			t.Errorf("it asks %q", got)
		}
		kill(a)
		kill(s)
		s, a = y.serve(), y.agent()
		y.joined()
		if got := y.output("ask", "--conversation", "q", "the red one"); got != "the red one for fish after Which one?\n" {
			t.Errorf("the reply gets %q", got)
		}
		canceling := make(chan string, 1)
		go func() { canceling <- ask("--conversation", "w", "--skill", "work", "wait") }()
		var tasks []struct {
			ID string `json:"taskId"`
		}
		y.eventually("waits for it", func() string { return read(t, y.log.Name()) })
		if err := json.Unmarshal([]byte(y.output("tasks", "--json")), &tasks); err != nil || len(tasks) != 1 || tasks[0].ID == "" {
			t.Fatalf("tasks: %v: %+v", err, tasks)
		}
		y.output("tasks", "cancel", tasks[0].ID)
		<-canceling
		y.eventually("canceled: ", func() string { return read(t, y.log.Name()) })
		for _, want := range []string{"print goes to the log", "nobody answers: "} {
			if got := read(t, y.log.Name()); !strings.Contains(got, want) {
				t.Errorf("the log has no %q", want)
			}
		}
	})
}

// TestSDKsUnderLoad kills the worker, its agent or Cortex at random while people ask. Everybody gets one answer, which is whole.
func TestSDKsUnderLoad(t *testing.T) {
	kills := sdkKills
	if text := os.Getenv("SDK_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("SDK_KILLS: %v", err)
		}
	}
	inEachLanguage(t, func(t *testing.T, worker string) {
		y := newYard(t, worker)
		s, a := y.serve(), y.agent()
		defer func() { kill(a); kill(s) }()
		y.joined()
		var asking sync.WaitGroup
		stop := make(chan struct{})
		var mu sync.Mutex
		asked := 0
		for range 8 {
			asking.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					mu.Lock()
					n := asked
					asked++
					mu.Unlock()
					y.output("ask", "--conversation", fmt.Sprint("c", n), "--agent", "worker", "--skill", "slow", fmt.Sprint("number ", n))
				}
			})
		}
		for n := range kills {
			time.Sleep(time.Duration(300+rand.IntN(500)) * time.Millisecond)
			switch n % 3 {
			case 0:
				// Without a file the worker has not begun yet.
				if b, err := os.ReadFile(filepath.Join(y.dir, "pid")); err == nil {
					if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
						if p, err := os.FindProcess(pid); err == nil {
							_ = p.Kill()
						}
					}
				}
			case 1:
				kill(a)
				a = y.agent()
			case 2:
				kill(s)
				s = y.serve()
			}
		}
		close(stop)
		asking.Wait()
		y.joined()
		const settled = "(settled)"
		answered, refused := 0, 0
		for n := range asked {
			history := ""
			y.eventually(settled, func() string { // until it is answered, or was not accepted
				history = y.output("conversations", "history", fmt.Sprint("c", n), "--json")
				if strings.Contains(history, "there is no conversation") || strings.Contains(history, `"TASK_STATE_COMPLETED"`) || strings.Contains(history, `"failure":`) {
					return settled
				}
				return history
			})
			results := 0
			for line := range strings.Lines(history) {
				var e struct {
					Cause struct {
						Kind    string
						Payload a2a.Task
					}
				}
				if json.Unmarshal([]byte(line), &e) != nil || e.Cause.Kind != "task" {
					continue
				}
				results++
				if text := e.Cause.Payload.Status.Message.Parts[0].Text(); e.Cause.Payload.Status.State != a2a.TaskStateCompleted || text != fmt.Sprint("line ", n) {
					t.Errorf("c%d: %s %q", n, e.Cause.Payload.Status.State, text)
				}
			}
			switch {
			case strings.Contains(history, "there is no conversation"):
				refused++
			case results == 0 && strings.Contains(history, `"failure":"Nothing was done: `): // told so by a Cortex that did not know the worker yet
				refused++
			case results != 1:
				t.Errorf("c%d has %d results", n, results)
			default:
				answered++
			}
		}
		if got := y.output("dead"); strings.Contains(got, "worker") {
			t.Errorf("dead letters: %s", got)
		}
		t.Logf("%d kills: %d were answered, %d not accepted", kills, answered, refused)
		if answered < 8 {
			t.Errorf("only %d of %d were answered", answered, asked)
		}
	})
}
