package persona_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/persona"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/llmtest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// kills is how often an agent is killed; PERSONA_KILLS says another number.
const kills = 100

// given is a task for an agent that is a process of its own, and ended what it says at its end.
type given struct {
	ID       string
	Delivery int
}

type ended struct{ ID, Text string }

// plan is a model that looks something up, writes two lines, and says what it was told.
func plan(_ context.Context, r *llm.Request) llmtest.Answer {
	_, id, _ := strings.Cut(r.Messages[0].Text(), "job ")
	switch len(r.Messages) {
	case 1:
		return llmtest.Text(call("mcp__facts__lookup", `{"name":"France"}`))
	case 3:
		return llmtest.Text(call("mcp__notes__append", fmt.Sprintf(`{"text":"%s first"}`, id)))
	case 5:
		return llmtest.Text(call("mcp__notes__append", fmt.Sprintf(`{"text":"%s second"}`, id)))
	}
	said := "done:"
	for i, name := range map[int]string{4: "first", 6: "second"} {
		if strings.Contains(r.Messages[i].Text(), "the outcome is unknown") {
			said += " " + name + " is unknown."
		}
	}
	return llmtest.Text(answer(said))
}

// runAgent is an agent that takes tasks on its standard input, and answers on its standard output.
func runAgent(dir string) error {
	p, err := persona.Read(context.Background(), os.Getenv("PERSONA_FILE"))
	if err != nil {
		return err
	}
	all, err := servers(context.Background(), filepath.Join(dir, "servers"), filepath.Join(dir, "notes"))
	if err != nil {
		return err
	}
	var script []llmtest.Answer
	for range 10_000 { // until it is killed
		script = append(script, llmtest.Func(plan))
	}
	a, err := persona.Open(p, &persona.Options{Dir: dir, Servers: all, Model: llm.NewAsker(llmtest.Script(script...), nil)})
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := out.Encode(ended{}); err != nil {
		return err
	}
	for {
		var g given
		if err := in.Decode(&g); err != nil {
			return err
		}
		t := task("job " + g.ID)
		t.ID, t.Delivery = a2a.TaskID(g.ID), g.Delivery
		said := ""
		for e, err := range a.Execute(context.Background(), t) {
			said = fmt.Sprint(err)
			if u, ok := e.(*a2a.TaskStatusUpdateEvent); ok && err == nil {
				said = transport.Text(u.Status.Message.Parts)
			}
		}
		if err := out.Encode(ended{g.ID, said}); err != nil {
			return err
		}
	}
}

// TestKilledAtRandom kills an agent at random while it works, and gives each task again until there is an answer, as Cortex does. Each line is written once, or
// the model was told that its outcome is unknown.
func TestKilledAtRandom(t *testing.T) {
	most := kills
	if n, err := strconv.Atoi(os.Getenv("PERSONA_KILLS")); err == nil {
		most = n
	}
	if testing.Short() {
		most = 5
	}
	dir := t.TempDir()
	killed, unknown := 0, 0
	written := map[string]int{}
	finished := map[string]string{}
	delivery := 1
	for n := 0; killed < most; {
		delivered, died := false, false
		agent := startAgent(t, dir)
		for !died {
			id := fmt.Sprint("j", n)
			if err := agent.in.Encode(given{id, delivery}); err != nil {
				t.Fatal(err)
			}
			delivered = true
			kill := time.AfterFunc(time.Duration(rand.Int64N(int64(45*time.Millisecond))), agent.kill)
			var e ended
			err := agent.out.Decode(&e)
			kill.Stop()
			if err != nil {
				died = true
				killed++
				delivery++
				break
			}
			finished[id] = e.Text
			n, delivery = n+1, 1
		}
		agent.wait()
		if !delivered {
			t.Fatal("nothing was delivered")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "notes"))
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(b)) {
		written[strings.TrimSpace(text)]++
	}
	for id, said := range finished {
		for _, name := range []string{"first", "second"} {
			got, told := written[id+" "+name], strings.Contains(said, name+" is unknown") || strings.HasPrefix(said, "the outcome is unknown")
			if told {
				unknown++
			}
			if got > 1 || got == 0 && !told || !told && !strings.HasPrefix(said, "done:") {
				t.Errorf("%s %s was written %d times, and the task says %q", id, name, got, said)
			}
		}
	}
	if len(finished) == 0 {
		t.Error("no task was finished")
	}
	t.Logf("killed %d times; %d tasks finished, with %d lines; %d of them told as unknown", killed, len(finished), len(written), unknown)
}

type process struct {
	*exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// startAgent starts an agent and waits until it takes tasks.
func startAgent(t *testing.T, dir string) *process {
	t.Helper()
	file, err := filepath.Abs("testdata/noter.agent.md")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asAgent+"="+dir, "PERSONA_FILE="+file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	if err := errors.Join(err, oerr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, json.NewEncoder(in), json.NewDecoder(out)}
	var ready ended
	if err := p.out.Decode(&ready); err != nil {
		t.Fatalf("the agent does not start: %v", err)
	}
	return p
}

func (p *process) kill() { _ = p.Process.Kill() }

func (p *process) wait() { _ = p.Wait() }
