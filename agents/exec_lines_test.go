package agents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// talker is a program that speaks lines of JSON. The first word of a task's text says what it does.
func talker([]string) {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 16<<20)
	var mu sync.Mutex
	say := func(l map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(l); err != nil {
			os.Exit(4)
		}
	}
	if path := os.Getenv("STARTS"); path != "" { // one line for each start
		f, _ := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		fmt.Fprintln(f, os.Getpid())
		f.Close()
	}
	if banner := os.Getenv("BANNER"); banner != "" {
		fmt.Println(banner)
	}
	for in.Scan() {
		var t struct {
			jsonl.Task
			Ask    string
			Reason string
			Failed bool
			Data   any
		}
		if err := json.Unmarshal(in.Bytes(), &t); err != nil {
			os.Exit(5)
		}
		tell := func(kind string, l map[string]any) {
			l["type"], l["id"] = kind, t.ID
			say(l)
		}
		switch t.Type {
		case jsonl.TypeCancel:
			fmt.Fprintln(os.Stderr, "canceled "+t.ID+": "+t.Reason)
			if !strings.HasPrefix(t.ID, "deaf") {
				tell("error", map[string]any{"text": "canceled"})
			}
			continue
		case jsonl.TypeReply:
			tell("result", map[string]any{"text": fmt.Sprintf("%s: %s, failed %v, %v, %d files", t.Ask, t.Text, t.Failed, t.Data, len(t.Files))})
			continue
		}
		word, rest, _ := strings.Cut(t.Text, " ")
		if t.Reply {
			word = "replied"
		}
		fmt.Fprintln(os.Stderr, "given "+t.ID)
		switch word {
		case "echo":
			tell("result", map[string]any{"text": rest})
		case "all": // everything that a task brings
			fields := map[string]any{}
			_ = json.Unmarshal(in.Bytes(), &fields)
			for _, k := range []string{"folder", "deadline"} {
				if fields[k] != nil {
					fields[k] = "some"
				}
			}
			for _, f := range t.Files {
				b, err := os.ReadFile(f.Path)
				fields["read"] = fmt.Sprint(string(b), err)
				f.Path = filepath.Base(f.Path)
				fields["files"] = f
			}
			for _, p := range t.Parts {
				if u := p.URL(); u != "" {
					fields["url"] = strings.HasPrefix(string(u), "file:///")
				}
			}
			delete(fields, "parts")
			tell("result", map[string]any{"data": fields})
		case "stream":
			tell("progress", map[string]any{"text": "working"})
			for _, piece := range []string{"to ", "be ", "or"} {
				tell("text", map[string]any{"text": piece})
			}
			tell("artifact", map[string]any{"name": "table", "data": []any{1, "two"}, "description": "A table"})
			tell("artifact", map[string]any{"name": "story", "text": "Once ", "append": true})
			tell("artifact", map[string]any{"name": "story", "text": "upon", "append": true})
			_ = os.WriteFile(filepath.Join(t.Folder, "plot.txt"), []byte("a plot"), 0o600)
			_ = os.WriteFile(filepath.Join(t.Folder, "scratch"), []byte("not told of"), 0o600)
			tell("file", map[string]any{"path": "plot.txt"})
			tell("result", map[string]any{})
		case "late": // says the last things just before it ends
			for n := range 6000 {
				tell("text", map[string]any{"text": fmt.Sprintln(n)})
			}
			tell("result", map[string]any{})
			os.Exit(0)
		case "outside":
			tell("file", map[string]any{"path": rest})
			continue
		case "reject":
			tell("rejected", map[string]any{"text": "not my work"})
		case "fail":
			tell("error", map[string]any{"text": "it is broken"})
		case "question":
			tell("input_required", map[string]any{"text": "which one?", "state": map[string]any{"about": rest}})
		case "replied":
			if strings.HasPrefix(t.Text, "hm") {
				tell("input_required", map[string]any{"text": "which one, then?", "state": map[string]any{"about": "hm"}})
				continue
			}
			history, _ := json.Marshal(t.History)
			tell("result", map[string]any{"text": fmt.Sprintf("%s with %s after %s", t.Text, t.State, history)})
		case "ask":
			tell("ask", map[string]any{"ask": "a1", "text": rest, "agent": "other"})
		case "long":
			tell("text", map[string]any{"text": strings.Repeat("x", jsonl.MaxLine)})
		case "slowly":
			tell("text", map[string]any{"text": "half of "})
			go func() {
				<-time.After(20 * time.Millisecond)
				tell("text", map[string]any{"text": rest})
				tell("result", map[string]any{})
			}()
		case "raw":
			fmt.Println(rest)
		case "ID": // a bad line that says which task it is about
			tell("dance", map[string]any{"text": rest})
		case "die":
			fmt.Fprintln(os.Stderr, "aargh")
			os.Exit(3)
		case "stray": // lines about tasks that nobody gave
			for range 3 {
				say(map[string]any{"type": "progress", "id": "x", "text": "?"})
			}
			tell("result", map[string]any{"text": "went on"})
		case "bad": // about a task that has ended
			tell("result", map[string]any{"text": "ended"})
			<-time.After(50 * time.Millisecond)
			tell("dance", map[string]any{})
		case "hang": // reads no more
			select {}
		case "until": // waits for a file
			go func() {
				for {
					if _, err := os.Stat(rest); err == nil {
						tell("result", map[string]any{"text": fmt.Sprint("waited ", t.Delivery)})
						return
					}
					<-time.After(5 * time.Millisecond)
				}
			}()
		case "wait1": // the first time it waits
			if t.Delivery > 1 {
				tell("result", map[string]any{"text": "waited"})
			}
		case "half1": // the first time it ends within a line
			if t.Delivery == 1 {
				fmt.Printf(`{"type":"result","id":%q,"te`, t.ID)
				os.Exit(3)
			}
			tell("result", map[string]any{"text": "whole"})
		case "die1": // the first time
			tell("text", map[string]any{"text": fmt.Sprint("delivery ", t.Delivery, " ")})
			if t.Delivery == 1 {
				os.Exit(3)
			}
			tell("result", map[string]any{})
		case "twice":
			tell("result", map[string]any{"text": "one"})
			<-time.After(50 * time.Millisecond) // the task has ended by now
			tell("result", map[string]any{"text": "two"})
			tell("progress", map[string]any{"text": "late"})
		}
	}
}

// lines returns a handler for the talker.
func lines(t *testing.T, o agents.ExecOptions) agents.Handler {
	t.Helper()
	o.Argv, o.Env = []string{os.Args[0]}, append(o.Env, asProgram+"=talker")
	h, err := agents.ExecLines(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// doing returns a function that has x do a task, and returns what it says last, or its error.
func doing(x *agents.Kept) func(ctx context.Context, id, text string) (got string) {
	return func(ctx context.Context, id, text string) (got string) {
		for e, err := range x.Execute(ctx, &agents.Task{ID: a2a.TaskID(id), Message: message(text), Delivery: 1}) {
			if err != nil {
				return err.Error()
			}
			got = transport.Text(e.(*a2a.TaskStatusUpdateEvent).Status.Message.Parts)
		}
		return got
	}
}

// kept returns an executor whose program is the talker.
func kept(t *testing.T, o agents.ExecOptions) *agents.Kept {
	t.Helper()
	o.Argv, o.Env = []string{os.Args[0]}, append(o.Env, asProgram+"=talker")
	k, err := agents.Keep(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := k.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		k.Close()
	})
	return k
}

// eachWay runs a test with a program for each task, and with one that stays.
func eachWay(t *testing.T, o agents.ExecOptions, test func(t *testing.T, c *agentstest.Cortex)) {
	t.Helper()
	t.Run("once", func(t *testing.T) { test(t, agentstest.Serve(t, lines(t, o))) })
	t.Run("kept", func(t *testing.T) { test(t, agentstest.Serve(t, kept(t, o))) })
}

func TestLines(t *testing.T) {
	t.Parallel()
	eachWay(t, agents.ExecOptions{}, func(t *testing.T, c *agentstest.Cortex) {
		for text, want := range map[string]struct {
			state a2a.TaskState
			text  string
		}{
			"echo to be":   {a2a.TaskStateCompleted, "to be"},
			"reject it":    {a2a.TaskStateRejected, "not my work"},
			"fail":         {a2a.TaskStateFailed, "it is broken"},
			"twice":        {a2a.TaskStateCompleted, "one"},
			"ID a":         {a2a.TaskStateFailed, `there is no type "dance": "{\"id\":\"task-`},
			"outside ../x": {a2a.TaskStateFailed, "../x: it is not in the folder of the task"},
			"outside /etc": {a2a.TaskStateFailed, "/etc: it is not in the folder of the task"},
			"outside none": {a2a.TaskStateFailed, "none: no such file or directory"},
			"raw Hi!":      {a2a.TaskStateFailed, `a line is not of the protocol jsonl: it is no JSON object: "Hi!"`},
			"late":         {a2a.TaskStateCompleted, "\n5998\n5999\n"},
		} {
			got := c.Do(text)
			if got.State != want.state || !strings.Contains(got.Text, want.text) {
				t.Errorf("%s: %s %.200q, want %s %q", text, got.State, got.Text, want.state, want.text)
			}
		}
	})
}

func TestLinesShow(t *testing.T) {
	t.Parallel()
	eachWay(t, agents.ExecOptions{}, func(t *testing.T, c *agentstest.Cortex) {
		got := c.Do("stream")
		for n := 0; len(got.Progress) == 0 && n < 10; n++ { // what is in quick succession is left out, such as progress right before the result
			got = c.Do("stream")
		}
		if got.State != a2a.TaskStateCompleted || got.Text != "to be or" || strings.Join(got.Progress, "|") != "working" {
			t.Errorf("got %+v", got)
		}
		var all []string
		for _, a := range got.Artifacts {
			b, _ := json.Marshal(a.Parts)
			all = append(all, a.Name+" "+a.Description+" "+string(b))
		}
		want := []string{`table A table [{"data":[1,"two"]}]`, `story  [{"text":"Once upon"}]`, `plot.txt  [{"raw":"YSBwbG90","filename":"plot.txt","mediaType":"text/plain"}]`}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
	})
}

func TestLinesTask(t *testing.T) {
	t.Parallel()
	eachWay(t, agents.ExecOptions{}, func(t *testing.T, c *agentstest.Cortex) {
		got := c.Task(&a2a.Message{
			Parts: a2a.ContentParts{
				a2a.NewTextPart("all of it"), a2a.NewDataPart(map[string]any{"n": 1.0}),
				&a2a.Part{Content: a2a.Raw("inside"), Filename: "../a b.txt", MediaType: "text/plain"},
			},
			Metadata: map[string]any{transport.MetaTaskType: "count", transport.MetaDeadline: time.Now().Add(time.Minute).Format(time.RFC3339Nano)},
		})
		fields, _ := got.Data().(map[string]any)
		if id, _ := fields["id"].(string); !strings.HasPrefix(id, "task-") {
			t.Errorf("the id is %q", id)
		}
		delete(fields, "id")
		want := map[string]any{
			"type": "task", "version": 1.0, "context": "conversation", "skill": "count", "text": "all of it", "input": map[string]any{"n": 1.0},
			"files":  map[string]any{"name": "a b.txt", "type": "text/plain", "size": 6.0, "path": "a b.txt"},
			"folder": "some", "deadline": "some", "delivery": 1.0, "read": "inside<nil>", "url": true,
		}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("the task (-want +got):\n%s", diff)
		}
	})
}

// A question ends the program's work. What it needs to go on comes with the reply, also after a restart of everything.
func TestLinesQuestion(t *testing.T) {
	t.Parallel()
	o := agents.ExecOptions{Questions: filepath.Join(t.TempDir(), "questions")}
	for name, serve := range map[string]func(*testing.T, agents.ExecOptions) agents.Executor{
		"once": func(t *testing.T, o agents.ExecOptions) agents.Executor { return lines(t, o) },
		"kept": func(t *testing.T, o agents.ExecOptions) agents.Executor { return kept(t, o) },
	} {
		t.Run(name, func(t *testing.T) {
			reply := func(id a2a.TaskID, text string) *a2a.Message {
				return &a2a.Message{TaskID: id, Parts: a2a.ContentParts{a2a.NewTextPart(text)}, Metadata: map[string]any{transport.MetaContinued: true}}
			}
			id := a2a.TaskID("question-" + name)
			got := agentstest.Serve(t, serve(t, o)).Task(&a2a.Message{TaskID: id, Parts: a2a.ContentParts{a2a.NewTextPart("question fish")}})
			if got.State != a2a.TaskStateInputRequired || got.Text != "which one?" {
				t.Fatalf("got %+v", got)
			}
			c := agentstest.Serve(t, serve(t, o))
			_ = c.Do("echo") // so that messages have other ids
			got = c.Task(reply(id, "hm"))
			if got.State != a2a.TaskStateInputRequired || got.Text != "which one, then?" {
				t.Fatalf("got %+v", got)
			}
			c = agentstest.Serve(t, serve(t, o))
			_, _ = c.Do("echo"), c.Do("echo")
			got = c.Task(reply(id, "the red one"))
			want := `the red one with {"about":"hm"} after [{"text":"question fish","question":"which one?"},{"text":"hm","question":"which one, then?"}]`
			if got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
			if got := c.Task(reply("unknown", "the red one")); got.Text != "the red one with  after null" {
				t.Errorf("elsewhere: %q", got.Text)
			}
		})
	}
}

// A reply that is delivered again gets what it got before, even if the program had asked again.
func TestLinesQuestionAgain(t *testing.T) {
	t.Parallel()
	h := lines(t, agents.ExecOptions{Questions: t.TempDir()})
	task := func(id, text string, reply bool) *agents.Task {
		m := message(text)
		m.ID, m.Metadata = id, map[string]any{transport.MetaContinued: reply}
		return &agents.Task{ID: "t", Message: m, Delivery: 1}
	}
	for _, step := range []struct {
		task *agents.Task
		want string
	}{
		{task("m1", "question fish", false), "which one?"},
		{task("m2", "hm", true), "which one, then?"},
		{task("m2", "red", true), `red with {"about":"fish"} after [{"text":"question fish","question":"which one?"}]`},
		{task("m1", "question meat", false), "which one?"}, // the first one again: what came later is void
		{task("m3", "red", true), `red with {"about":"meat"} after [{"text":"question meat","question":"which one?"}]`},
	} {
		if got, err := run(t, h, step.task); err != nil || got != step.want {
			t.Errorf("%s: %q, %v, want %q", step.task.Message.ID, got, err, step.want)
		}
	}
}

func TestLinesAsk(t *testing.T) {
	t.Parallel()
	eachWay(t, agents.ExecOptions{}, func(t *testing.T, c *agentstest.Cortex) {
		c.Answer(func(m *a2a.Message) (string, error) {
			if text := transport.Text(m.Parts); text != "fail" {
				return text + "? yes", nil
			}
			return "", errors.New("nobody knows")
		})
		for text, want := range map[string]string{"ask is it": "a1: is it? yes, failed false, <nil>, 0 files", "ask fail": "a1: nobody knows, failed true, <nil>, 0 files"} {
			if got := c.Do(text); got.Text != want {
				t.Errorf("%s: %+v, want %q", text, got, want)
			}
		}
	})
}

// logged collects the lines of a program's standard error.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (s *logged) log(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

// has waits until a line begins with want.
func (s *logged) has(t *testing.T, want string) {
	t.Helper()
	s.hasTimes(t, want, 1)
}

// hasTimes waits until n lines begin with want.
func (s *logged) hasTimes(t *testing.T, want string, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		found := 0
		s.mu.Lock()
		for _, l := range s.lines {
			if strings.HasPrefix(l, want) {
				found++
			}
		}
		s.mu.Unlock()
		if found >= n {
			return
		}
	}
	t.Fatalf("it does not say %q: %q", want, s.lines)
}

func TestLinesCancel(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(*testing.T, agents.ExecOptions) agents.Executor{
		"once": func(t *testing.T, o agents.ExecOptions) agents.Executor { return lines(t, o) },
		"kept": func(t *testing.T, o agents.ExecOptions) agents.Executor { return kept(t, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			starts := filepath.Join(t.TempDir(), "starts")
			x := serve(t, agents.ExecOptions{Log: log.log, Env: []string{"STARTS=" + starts}})
			for _, id := range []string{"kind", "deaf"} {
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					log.has(t, "given "+id)
					cancel(agents.ErrCanceled)
				}()
				for _, err := range x.Execute(ctx, &agents.Task{ID: a2a.TaskID(id), Message: message("wait")}) {
					if !errors.Is(err, agents.ErrCanceled) {
						t.Errorf("%s: %v", id, err)
					}
				}
				cancel(nil)
				log.has(t, "canceled "+id+": the task was canceled")
			}
			// The program that did not end its task was started again.
			for _, err := range x.Execute(t.Context(), &agents.Task{ID: "c", Message: message("echo hi")}) {
				if err != nil {
					t.Error(err)
				}
			}
			b, _ := os.ReadFile(starts)
			if n := strings.Count(string(b), "\n"); name == "kept" && n != 2 {
				t.Errorf("it was started %d times, want 2", n)
			}
		})
	}
}

// A program that dies takes no task with it, unless the task kills it each time or is to be done once.
func TestKeptDies(t *testing.T) {
	t.Parallel()
	card := agentcard.Attach(&a2a.AgentCard{Name: "a", Skills: []a2a.AgentSkill{{ID: "careful"}, {ID: "other"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"careful": {Once: true}},
	})
	starts := filepath.Join(t.TempDir(), "starts")
	c := agentstest.Serve(t, kept(t, agents.ExecOptions{Card: card, Env: []string{"STARTS=" + starts}}))
	for _, text := range []string{"twice", "ID a", "echo"} { // what comes late or is wrong for one task does not end it
		_ = c.Do(text)
	}
	if b, _ := os.ReadFile(starts); strings.Count(string(b), "\n") != 1 {
		t.Errorf("it was started %d times, want once", strings.Count(string(b), "\n"))
	}
	if got := c.Do("die1"); got.State != a2a.TaskStateCompleted || got.Text != "delivery 2 " {
		t.Errorf("got %+v", got)
	}
	if got := c.Do("die"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, "ended 3 times while it worked on this: exit status 3: ") || !strings.Contains(got.Text, "aargh") {
		t.Errorf("got %+v", got)
	}
	got := c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart("die1")}, Metadata: map[string]any{transport.MetaTaskType: "careful"}})
	if got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, "what it had done until then is unknown") {
		t.Errorf("got %+v", got)
	}
	if got := c.Do("echo well"); got.Text != "well" {
		t.Errorf("got %+v", got)
	}
}

// A task that is to be done once is not done again when it was given before: its agent may have been killed while the program worked on it.
func TestOnceIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	card := agentcard.Attach(&a2a.AgentCard{Name: "a", Skills: []a2a.AgentSkill{{ID: "careful"}, {ID: "other"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"careful": {Once: true}},
	})
	o := agents.ExecOptions{Card: card}
	for name, x := range map[string]agents.Executor{"text": program(t, "cat", o), "lines": lines(t, o), "kept": kept(t, o)} {
		for skill, most := range map[string]int{"careful": 1, "other": 2} {
			for delivery := 1; delivery <= 2; delivery++ {
				var failed error
				for _, err := range x.Execute(t.Context(), &agents.Task{ID: "t", Skill: skill, Message: message("echo hi"), Delivery: delivery}) {
					failed = err
				}
				if unknown := failed != nil && strings.Contains(failed.Error(), "what it had done until then is unknown"); unknown != (delivery > most) || failed != nil && !unknown {
					t.Errorf("%s, %s, delivery %d: %v", name, skill, delivery, failed)
				}
			}
		}
	}
}

// A program that is killed again and again while it does many tasks loses none, and gives each result once and whole.
func TestKeptKilled(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	c := agentstest.Serve(t, kept(t, agents.ExecOptions{Env: []string{"STARTS=" + starts}}))
	stop := make(chan struct{})
	var working sync.WaitGroup
	var mu sync.Mutex
	done, unlucky := 0, 0
	for n := range 8 {
		working.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprintf("half of %d.%d", n, i)
				got := c.Do("slowly" + strings.TrimPrefix(want, "half of"))
				mu.Lock()
				switch {
				case got.State == a2a.TaskStateCompleted && got.Text == want:
					done++
				case strings.Contains(got.Text, "ended 3 times while it worked on this: signal: killed"):
					unlucky++
				default:
					t.Errorf("%s: %+v", want, got)
				}
				mu.Unlock()
			}
		})
	}
	for n := 0; n < 5; n++ {
		pid := 0
		for ; pid == 0; <-time.After(5 * time.Millisecond) {
			b, _ := os.ReadFile(starts)
			if pids := strings.Fields(string(b)); len(pids) > n {
				pid, _ = strconv.Atoi(pids[len(pids)-1])
			}
		}
		<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
	close(stop)
	working.Wait()
	t.Logf("%d tasks are done, %d were killed three times", done, unlucky)
	if done == 0 {
		t.Error("no task is done")
	}
}

// A program is killed while it writes a line: all of its tasks are done by others.
func TestLinesEndWithinLine(t *testing.T) {
	t.Parallel()
	log := &logged{}
	c := agentstest.Serve(t, kept(t, agents.ExecOptions{Log: log.log}))
	var both sync.WaitGroup
	both.Go(func() {
		if got := c.Do("wait1"); got.Text != "waited" {
			t.Errorf("the other: %+v", got)
		}
	})
	log.has(t, "given ")
	if got := c.Do("half1"); got.Text != "whole" {
		t.Errorf("got %+v", got)
	}
	both.Wait()
}

// Lines about a task that a program does not have are ignored when it has others, and told once.
func TestLinesStray(t *testing.T) {
	t.Parallel()
	want := `a line is not of the protocol jsonl: it has no task of this id: "progress x"`
	if got := agentstest.Serve(t, lines(t, agents.ExecOptions{})).Do("stray"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, want) {
		t.Errorf("once: %+v", got)
	}
	log, starts := &logged{}, filepath.Join(t.TempDir(), "starts")
	c := agentstest.Serve(t, kept(t, agents.ExecOptions{Log: log.log, Env: []string{"STARTS=" + starts}}))
	for _, text := range []string{"stray", "bad", "stray"} {
		if got := c.Do(text); got.State != a2a.TaskStateCompleted {
			t.Errorf("kept: %+v", got)
		}
	}
	if b, err := os.ReadFile(starts); err != nil || len(strings.Fields(string(b))) != 1 {
		t.Errorf("it was started by %q, %v", b, err)
	}
	_ = c.Do("late") // it ends
	log.has(t, "7 lines about tasks that it does not have were ignored")
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := strings.Count(strings.Join(log.lines, "\n"), "is ignored: progress x"); n != 1 {
		t.Errorf("it is told %d times: %q", n, log.lines)
	}
}

// A program that hangs is started again although it has another task, which is done by another one.
func TestLinesHang(t *testing.T) {
	t.Parallel()
	log := &logged{}
	x := kept(t, agents.ExecOptions{Log: log.log})
	do := doing(x)
	patience, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		if got := do(patience, "other", "wait1"); got != "waited" {
			t.Errorf("the other: %q", got)
		}
	})
	log.has(t, "given other")
	for n, text := range []string{"hang", "echo", "echo"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		id := fmt.Sprintf("deaf%d", n)
		all.Go(func() { _ = do(ctx, id, text) })
		if n == 0 {
			log.has(t, "given "+id)
		}
		cancel(context.DeadlineExceeded)
	}
	all.Wait()
	if got := do(patience, "last", "echo again"); got != "again" {
		t.Errorf("behind it: %q", got)
	}
}

// Whoever cancels tasks with which a program goes on ends none of others: these go on beside the next program, which gets the next tasks at once.
func TestKeptCanceledAgain(t *testing.T) {
	t.Parallel()
	log, starts, released := &logged{}, filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "released")
	x := kept(t, agents.ExecOptions{Log: log.log, Env: []string{"STARTS=" + starts}})
	do := doing(x)
	patience, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var other, canceled sync.WaitGroup
	other.Go(func() {
		if got := do(patience, "other", "until "+released); got != "waited 1" {
			t.Errorf("the other: %q", got)
		}
	})
	log.has(t, "given other")
	for n := range 40 { // of which 24 may come to the next program: that has to wait until the first one has ended
		ctx, cancel := context.WithCancelCause(t.Context())
		id := fmt.Sprintf("deaf%d.", n)
		canceled.Go(func() { _ = do(ctx, id, "wait") })
		log.has(t, "given "+id)
		cancel(agents.ErrCanceled)
		if n == 15 {
			canceled.Wait()
			log.has(t, "it goes on with canceled tasks: another one gets the next tasks")
		}
	}
	if got := do(patience, "last", "echo again"); got != "again" {
		t.Errorf("behind them: %q", got)
	}
	b, _ := os.ReadFile(starts)
	if n := len(strings.Fields(string(b))); n != 2 {
		t.Errorf("%d programs were started while the other task went on, want 2", n)
	}
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	canceled.Wait()
	if got := do(patience, "afterwards", "echo once more"); got != "once more" {
		t.Errorf("afterwards: %q", got)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, l := range log.lines {
		if strings.HasPrefix(l, "it is started again in ") {
			t.Errorf("others have to wait: %q", l)
		}
	}
}

// A program that ends of its own is told as that, whatever it goes on with: it has its pause, and its reason is in the log.
func TestKeptDiesWithCanceled(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			x := kept(t, agents.ExecOptions{Log: log.log})
			give := func(ctx context.Context, id, text string) (wait func()) {
				var ends sync.WaitGroup
				ends.Go(func() {
					for range x.Execute(ctx, &agents.Task{ID: a2a.TaskID(id), Message: message(text), Delivery: 1}) {
					}
				})
				log.has(t, "given "+id)
				return ends.Wait
			}
			other := give(t.Context(), "other", "wait1")
			ctx, cancel := context.WithCancelCause(t.Context())
			deaf := give(ctx, "deaf", "wait")
			cancel(agents.ErrCanceled)
			deaf()
			last := give(t.Context(), "last", "die1")
			log.has(t, "it is started again in ")
			other()
			last()
		})
	}
}

// Whoever cancels without end cannot have two programs go on with all that: the first one has to end, and what it still had is done by others.
func TestKeptCanceledWithoutEnd(t *testing.T) {
	t.Parallel()
	log, released := &logged{}, filepath.Join(t.TempDir(), "released")
	x := kept(t, agents.ExecOptions{Log: log.log})
	do := doing(x)
	patience, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var other, canceled sync.WaitGroup
	hold := func(id, want string) {
		other.Go(func() {
			if got := do(patience, id, "until "+released); got != want {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		})
		log.has(t, "given "+id)
	}
	hold("first", "waited 2")
	const relieved = "it goes on with canceled tasks: another one gets the next tasks"
	for n := range 16 + 32 {
		ctx, cancel := context.WithCancelCause(t.Context())
		id := fmt.Sprintf("deaf%d.", n)
		canceled.Go(func() { _ = do(ctx, id, "wait") })
		log.has(t, "given "+id)
		cancel(agents.ErrCanceled)
		if n == 15 {
			log.has(t, relieved)
			hold("second", "waited 1")
		}
	}
	canceled.Wait()
	log.hasTimes(t, relieved, 2)
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	if got := do(patience, "last", "echo again"); got != "again" {
		t.Errorf("behind them: %q", got)
	}
}

// Tasks that run out at the same moment, as those of one sender do, end none of others while the program is at work: it said something in their time.
func TestKeptRunsOut(t *testing.T) {
	t.Parallel()
	log, released := &logged{}, filepath.Join(t.TempDir(), "released")
	x := kept(t, agents.ExecOptions{Log: log.log})
	do := doing(x)
	patience, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var other, over sync.WaitGroup
	other.Go(func() {
		if got := do(patience, "other", "until "+released); got != "waited 1" {
			t.Errorf("the other: %q", got)
		}
	})
	log.has(t, "given other")
	ctx, end := context.WithCancelCause(t.Context())
	for n := range 5 {
		id := fmt.Sprintf("deaf%d.", n)
		over.Go(func() { _ = do(ctx, id, "wait") })
		log.has(t, "given "+id)
	}
	if got := do(patience, "at work", "echo this"); got != "this" {
		t.Errorf("meanwhile: %q", got)
	}
	end(context.DeadlineExceeded)
	over.Wait()
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other.Wait()
}

// When a program with many tasks ends, few of them have one of their own at a time; the others are done by the one that is started again.
func TestKeptAloneAreFew(t *testing.T) {
	t.Parallel()
	log, dir := &logged{}, t.TempDir()
	starts, released := filepath.Join(dir, "starts"), filepath.Join(dir, "released")
	c := agentstest.Serve(t, kept(t, agents.ExecOptions{Log: log.log, Env: []string{"STARTS=" + starts}}))
	var all sync.WaitGroup
	const tasks = 8
	for range tasks {
		all.Go(func() {
			if got := c.Do("until " + released); got.Text != "waited 2" {
				t.Errorf("got %+v", got)
			}
		})
	}
	log.hasTimes(t, "given ", tasks)
	pids := func() []string {
		b, err := os.ReadFile(starts)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	pid, err := strconv.Atoi(pids()[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	log.hasTimes(t, "given ", 2*tasks)
	if n := len(pids()); n != 2+4 {
		t.Errorf("%d programs were started, want two for many tasks and four for one each", n)
	}
	if err := os.WriteFile(released, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// A task that comes while the program is not to be started again soon has one of its own.
func TestKeptLongPause(t *testing.T) {
	t.Parallel()
	k, err := agents.Keep(agents.ExecOptions{Argv: []string{os.Args[0]}, Env: []string{asProgram + "=talker"}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	c := agentstest.Serve(t, k) // without Run, as in a pause that does not end
	if got := c.Do("echo well"); got.Text != "well" {
		t.Errorf("got %+v", got)
	}
	if got := c.Do("die"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, "ended 3 times while it worked on this: exit status 3: ") {
		t.Errorf("got %+v", got)
	}
}

// A task at which a program ends, or with which it breaks the protocol, ends it once, and fails alone; who has others is told nothing of it.
func TestKeptOnlyTheGuilty(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"die secret", "raw secret", "long"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			log, released := &logged{}, filepath.Join(t.TempDir(), "released")
			c := agentstest.Serve(t, kept(t, agents.ExecOptions{Log: log.log}))
			var other sync.WaitGroup
			other.Go(func() {
				if got := c.Do("until " + released); got.Text != "waited 1" && got.Text != "waited 2" {
					t.Errorf("the other: %+v", got)
				}
			})
			log.has(t, "given ")
			if got := c.Do(text); got.State != a2a.TaskStateFailed {
				t.Errorf("got %+v", got)
			}
			if err := os.WriteFile(released, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			other.Wait()
			if got := c.Do("echo well"); got.Text != "well" {
				t.Errorf("got %+v", got)
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			if n := strings.Count(strings.Join(log.lines, "\n"), "it is started again in "); n > 1 {
				t.Errorf("it was started again %d times, want once: %q", n, log.lines)
			}
		})
	}
	card := agentcard.Attach(&a2a.AgentCard{Name: "a", Skills: []a2a.AgentSkill{{ID: "careful"}, {ID: "other"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"careful": {Once: true}},
	})
	for _, text := range []string{"die", "raw secret"} {
		c := agentstest.Serve(t, kept(t, agents.ExecOptions{Card: card}))
		got := c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart(text)}, Metadata: map[string]any{transport.MetaTaskType: "careful"}})
		if got.State != a2a.TaskStateFailed || strings.Contains(got.Text, "aargh") || strings.Contains(got.Text, "secret") {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestLinesBounds(t *testing.T) {
	t.Parallel()
	eachWay(t, agents.ExecOptions{}, func(t *testing.T, c *agentstest.Cortex) {
		var deep any = 1.0
		for range 3000 {
			deep = []any{deep}
		}
		got := c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart("echo"), a2a.NewDataPart(deep)}})
		if got.State != a2a.TaskStateRejected || got.Text != "the data is nested deeper than 200 levels" {
			t.Errorf("deep input: %s %.300q", got.State, got.Text)
		}
		want := `: a line is not of the protocol jsonl: the line has more than 1048576 bytes: "{\"id\":\"task-`
		if got = c.Do("long"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, want) {
			t.Errorf("%s %.300q, want %q", got.State, got.Text, want)
		}
	})
}

func TestLinesDies(t *testing.T) {
	t.Parallel()
	c := agentstest.Serve(t, lines(t, agents.ExecOptions{}))
	if got := c.Do("die"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, "ended without a result: exit status 3: ") {
		t.Errorf("got %+v", got)
	}
}

// A program that says something else first is told apart, and the line is quoted.
func TestLinesBanner(t *testing.T) {
	t.Parallel()
	c := agentstest.Serve(t, lines(t, agents.ExecOptions{Env: []string{"BANNER=Listening on port 80"}}))
	if got := c.Do("echo"); got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, `"Listening on port 80"`) {
		t.Errorf("got %+v", got)
	}
	log := &logged{}
	_ = kept(t, agents.ExecOptions{Env: []string{"BANNER=Listening on port 80"}, Log: log.log})
	log.has(t, "it is started again in ")
}
