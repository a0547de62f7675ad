package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Exec runs the test binary as its program when this variable is set.
const asProgram = "AGENTS_TEST_PROGRAM"

var programs = map[string]func(args []string){
	"cat": func([]string) { io.Copy(os.Stdout, os.Stdin) },
	"env": func([]string) {
		for _, k := range []string{"CORTEX_TASK_ID", "CORTEX_CONTEXT_ID", "CORTEX_SKILL", "CORTEX_DEADLINE", "CORTEX_INPUT", "TRACEPARENT", "TRACESTATE", "EXTRA"} {
			fmt.Println(k + "=" + os.Getenv(k))
		}
		wd, _ := os.Getwd()
		fmt.Println(filepath.Base(wd))
	},
	"args": func(args []string) { fmt.Printf("%q", args) },
	"fail": func([]string) {
		fmt.Print("half a result")
		for i := range 100 {
			fmt.Fprintln(os.Stderr, "line", i)
		}
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20), "\rwhy it failed")
		os.Exit(3)
	},
	"deaf":   func([]string) { fmt.Println("did not listen") },
	"silent": func([]string) {},
	"flood": func([]string) {
		fmt.Print("!") // so that the limit is within a character
		for {
			if _, err := fmt.Print(strings.Repeat("é", 1000)); err != nil {
				return
			}
		}
	},
	"moan": func([]string) {
		for range 1000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("moan ", 1000))
		}
		fmt.Println("done")
	},
	"binary": func([]string) { os.Stdout.Write([]byte{0xff, 0, 1, 2}) },
	"hang": func([]string) {
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt)
		<-c
	},
	"host":   host,
	"talker": talker,
}

// host is a process that runs a script with Exec until it is killed.
func host(args []string) {
	h, err := agents.Exec(agents.ExecOptions{Argv: append([]string{"/bin/sh", "-c", args[0], "sh"}, args[1:]...)})
	if err != nil {
		os.Exit(1)
	}
	h(context.Background(), &agents.Task{})
}

func TestMain(m *testing.M) {
	if p, ok := programs[os.Getenv(asProgram)]; ok {
		p(os.Args[1:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program returns the handler for one of the programs above.
func program(t *testing.T, name string, o agents.ExecOptions) agents.Handler {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Argv = append([]string{self}, o.Argv...)
	o.Env = append(o.Env, asProgram+"="+name)
	h, err := agents.Exec(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func message(text string) *a2a.Message {
	return &a2a.Message{ID: "m1", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
}

// run runs a handler and returns the text of its result.
func run(t *testing.T, h agents.Handler, task *agents.Task) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := h(ctx, task)
	if err != nil {
		return "", err
	}
	return transport.Text(r.Parts), nil
}

func TestExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	task := &agents.Task{
		ID: "t1", ContextID: "c1", Skill: "do\x00it", Message: message("hello\nworld"), Deadline: time.Date(2026, 11, 20, 18, 0, 0, 5, time.UTC),
		Traceparent: "00-1-2-01", Tracestate: "a=1",
	}
	tests := []struct {
		name string
		o    agents.ExecOptions
		want string
	}{
		{"cat", agents.ExecOptions{}, "hello\nworld"},
		{"args", agents.ExecOptions{Argv: []string{"a b", "$HOME", "*"}}, `["a b" "$HOME" "*"]`},
		{"env", agents.ExecOptions{Dir: dir, Env: []string{"EXTRA=1"}}, "CORTEX_TASK_ID=t1\nCORTEX_CONTEXT_ID=c1\nCORTEX_SKILL=doit\n" +
			"CORTEX_DEADLINE=2026-11-20T18:00:00.000000005Z\nCORTEX_INPUT=\nTRACEPARENT=00-1-2-01\nTRACESTATE=a=1\nEXTRA=1\n" + filepath.Base(dir)},
		{"deaf", agents.ExecOptions{}, "did not listen"},
	}
	for _, tt := range tests {
		got, err := run(t, program(t, tt.name, tt.o), task)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// JSON output of a skill with an output schema is data; other output is text.
func TestExecData(t *testing.T) {
	t.Parallel()
	card := agentcard.Attach(&a2a.AgentCard{Name: "a", Skills: []a2a.AgentSkill{{ID: "search"}, {ID: "talk"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{
			"search": {OutputSchema: json.RawMessage(`{}`), DispatchKey: "product.search_request"},
			"talk":   {InputSchema: json.RawMessage(`{}`)},
		},
	})
	one := agentcard.Attach(&a2a.AgentCard{Name: "a", Skills: []a2a.AgentSkill{{ID: "search"}}}, &agentcard.Spec{
		Abilities: map[string]agentcard.Ability{"search": {OutputSchema: json.RawMessage(`{}`)}},
	})
	found := a2a.NewDataPart(map[string]any{"n": 1.0})
	tests := []struct {
		card         *a2a.AgentCard
		skill, print string
		want         *a2a.Part
	}{
		{card, "search", ` {"n": 1}`, found},
		{card, "product.search", `{"n": 1}`, found}, // as newTask reads the dispatch key
		{card, "talk", `{"n": 1}`, a2a.NewTextPart(`{"n": 1}`)},
		{card, "", `{"n": 1}`, a2a.NewTextPart(`{"n": 1}`)},
		{one, "", `{"n": 1}`, found},
		{nil, "search", `{"n": 1}`, a2a.NewTextPart(`{"n": 1}`)},
		{card, "search", `{"n": 1} and more`, a2a.NewTextPart(`{"n": 1} and more`)},
		{card, "search", `null`, a2a.NewTextPart(`null`)},
		{card, "search", `{"id": 9007199254740993}`, a2a.NewDataPart(map[string]any{"id": json.Number("9007199254740993")})},
	}
	for _, tt := range tests {
		r, err := program(t, "cat", agents.ExecOptions{Card: tt.card})(t.Context(), &agents.Task{Skill: tt.skill, Message: message(tt.print)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a2a.ContentParts{tt.want}, r.Parts); diff != "" {
			t.Errorf("skill %q prints %s (-want +got):\n%s", tt.skill, tt.print, diff)
		}
	}
}

func TestExecInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		input any
		want  string
	}{
		{map[string]any{"query": "red\nshoes"}, `CORTEX_INPUT={"query":"red\nshoes"}`},
		{map[string]any{"id": json.Number("9007199254740993")}, `CORTEX_INPUT={"id":9007199254740993}`},
		{strings.Repeat("x", 64<<10-3), "CORTEX_INPUT=\"" + strings.Repeat("x", 64<<10-3) + "\""},
		{strings.Repeat("x", 64<<10-2), "CORTEX_INPUT="},
	} {
		m := message("find it")
		m.Parts = append(m.Parts, a2a.NewDataPart(tt.input))
		// The agent's own environment may have the variable.
		o := agents.ExecOptions{Env: []string{"CORTEX_INPUT=old"}}
		got, err := run(t, program(t, "env", o), &agents.Task{Message: m})
		if err != nil || !strings.Contains(got, "\n"+tt.want+"\n") {
			t.Errorf("environment %.200q, %v, want %.60s", got, err, tt.want)
		}
	}
}

func TestExecJSON(t *testing.T) {
	t.Parallel()
	want := message("hello\nworld")
	want.Parts = append(want.Parts, a2a.NewDataPart(map[string]any{"n": 1.0}))
	got, err := run(t, program(t, "cat", agents.ExecOptions{JSON: true}), &agents.Task{Message: want})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "\n") {
		t.Errorf("the task has more than one line: %q", got)
	}
	var m *a2a.Message
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// A program that does not read a task larger than a pipe's buffer has not failed.
func TestExecDoesNotReadStdin(t *testing.T) {
	t.Parallel()
	got, err := run(t, program(t, "deaf", agents.ExecOptions{}), &agents.Task{Message: message(strings.Repeat("x", 1<<20))})
	if err != nil || got != "did not listen" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExecFailure(t *testing.T) {
	t.Parallel()
	got, err := run(t, program(t, "fail", agents.ExecOptions{}), &agents.Task{})
	if err == nil {
		t.Fatalf("got %q, want an error", got)
	}
	text := err.Error()
	if !strings.Contains(text, ": exit status 3: ") || !strings.HasSuffix(text, "why it failed") || strings.Contains(text, "line 90") || len(text) > 3000 {
		t.Errorf("error of %d bytes = %q, want the status and the last lines, cut", len(text), text)
	}
}

func TestExecFloodsStdout(t *testing.T) {
	t.Parallel()
	got, err := run(t, program(t, "flood", agents.ExecOptions{}), &agents.Task{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got, "!"+strings.Repeat("é", 100_000)) || !strings.HasSuffix(got, "é\n[cut: agents.test wrote more than 1048576 bytes and was stopped]") {
		t.Errorf("got %d bytes that end %q, want them cut with a note", len(got), got[len(got)-100:])
	}
}

func TestExecFloodsStderr(t *testing.T) {
	h := program(t, "moan", agents.ExecOptions{})
	synctest.Test(t, func(t *testing.T) { // in a bubble time stands still while the program runs
		b := newBench(t)
		defer b.serve(h, nil)()
		b.give(task("t1", "hello", nil))
		b.want("t1 COMPLETED: done")
		got := b.shown()
		if len(got) == 0 || len(got) > 2 {
			t.Fatalf("%d of 1000 lines were shown at once, want the first and the last", len(got))
		}
		for _, s := range got {
			if len(s) > 1100 || !strings.HasPrefix(s, "t1 TASK_STATE_WORKING moan moan") {
				t.Errorf("%d bytes were shown: %q", len(s), s)
			}
		}
	})
}

func TestExecBinary(t *testing.T) {
	t.Parallel()
	r, err := program(t, "binary", agents.ExecOptions{})(t.Context(), &agents.Task{})
	if err != nil {
		t.Fatal(err)
	}
	want := a2a.ContentParts{a2a.NewTextPart("binary output, 4 bytes"), {Content: a2a.Raw{0xff, 0, 1, 2}, MediaType: "application/octet-stream"}}
	if diff := cmp.Diff(want, r.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestExecHangs(t *testing.T) {
	t.Parallel()
	h := program(t, "hang", agents.ExecOptions{})
	canceled := errors.New("canceled by a test")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(canceled) })
	if r, err := h(ctx, &agents.Task{}); !errors.Is(err, canceled) {
		t.Errorf("canceled: %v, %v, want the cause", r, err)
	}
	if r, err := h(ctx, &agents.Task{}); !errors.Is(err, canceled) {
		t.Errorf("canceled before it began: %v, %v, want the cause", r, err)
	}
	h = program(t, "hang", agents.ExecOptions{Timeout: 50 * time.Millisecond})
	if r, err := h(t.Context(), &agents.Task{}); err == nil || !strings.HasSuffix(err.Error(), "did not end within 50ms") {
		t.Errorf("timeout: %v, %v, want it named", r, err)
	}
}

func TestExecRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		o    agents.ExecOptions
		want string
	}{
		{agents.ExecOptions{}, "no program to run"},
		{agents.ExecOptions{Argv: []string{"no-such-program"}}, "no-such-program: not found in PATH"},
		{agents.ExecOptions{Argv: []string{"./no-such"}, Dir: dir}, "./no-such: there is no such file"},
		{agents.ExecOptions{Argv: []string{plain}}, "not executable: run chmod +x"},
		{agents.ExecOptions{Argv: []string{"./plain"}, Dir: dir}, "not executable: run chmod +x"},
		{agents.ExecOptions{Argv: []string{"plain"}, Dir: dir}, "write ./plain"},
		{agents.ExecOptions{Argv: []string{dir}}, "cannot be run"},
		{agents.ExecOptions{Argv: []string{plain}, Dir: filepath.Join(dir, "gone")}, "there is no such folder"},
	}
	for _, tt := range tests {
		_, err := agents.Exec(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Exec(%q in %q) = %v, want an error with %q", tt.o.Argv, tt.o.Dir, err, tt.want)
		}
	}
}
