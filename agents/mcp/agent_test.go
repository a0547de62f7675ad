package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

// program is the test server as a program of its own.
func program(t *testing.T, env ...string) *mcp.Server {
	t.Helper()
	config := fmt.Sprintf(`{"mcpServers": {"test": {"command": %q, "env": {%q: "1", "KEY": "s3cret-token"`, os.Args[0], asServer)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		config += fmt.Sprintf(", %q: %q", name, value)
	}
	c, err := mcp.ParseConfig([]byte(config + "}}}}"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Server("test", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// address is the test server at an address: of the newest revision, of the ones before, or of the first transport.
func address(t *testing.T, kind string) *mcp.Server {
	t.Helper()
	s := newServer()
	get := func(*http.Request) *sdk.Server { return s }
	var h http.Handler
	config := `{"mcpServers": {"test": {"type": %q, "url": %q, "headers": {"Authorization": "Bearer s3cret-token"}}}}`
	switch kind {
	case "sse", "untyped sse":
		h = sdk.NewSSEHandler(get, nil)
	default:
		h = sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: kind == "stateless"})
	}
	inJSON := kind == "json" // what it says to "upper"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret-token" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if inJSON && bytes.Contains(b, []byte(`"name":"upper"`)) {
			var q struct {
				ID     any
				Params struct{ Arguments words }
			}
			_ = json.Unmarshal(b, &q)
			if w.Header().Set("Content-Type", "application/json"); q.Params.Arguments.Text == "not a number" {
				w.Header().Set("Content-Type", "text/html") // as a proxy's
			}
			w.Write(spoil(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%v,"result":{"content":[{"type":"text","text":%q}]}}`, q.ID, strings.ToUpper(q.Params.Arguments.Text))))
			return
		}
		h.ServeHTTP(spoiling{w}, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	kind = map[string]string{"sse": "sse"}[kind] // for the others it says nothing, as some files do
	c, err := mcp.ParseConfig(fmt.Appendf(nil, config, kind, web.URL))
	if err != nil {
		t.Fatal(err)
	}
	of, err := c.Server("test", os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// open returns the agent of a server, while it runs.
func open(t *testing.T, s *mcp.Server, dir string, log *slog.Logger) *mcp.Agent {
	t.Helper()
	a, err := mcp.Open(t.Context(), s, &mcp.Options{Dir: dir, Version: "1", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := a.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return a
}

// servers are all ways to reach a server.
func servers(t *testing.T) map[string]func(*testing.T) *mcp.Server {
	return map[string]func(*testing.T) *mcp.Server{
		"program":   func(t *testing.T) *mcp.Server { return program(t) },
		"stateless": func(t *testing.T) *mcp.Server { return address(t, "stateless") },
		"stateful":  func(t *testing.T) *mcp.Server { return address(t, "stateful") },
		"sse":       func(t *testing.T) *mcp.Server { return address(t, "sse") },
		"untyped":   func(t *testing.T) *mcp.Server { return address(t, "untyped sse") },
	}
}

// The tools of a server do the tasks of its agent, however it is reached.
func TestCalls(t *testing.T) {
	for name, reach := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := agentstest.Serve(t, open(t, reach(t), t.TempDir(), nil))
			got := c.DoSkill("add", map[string]any{"a": 2, "b": 3})
			if diff := cmp.Diff(map[string]any{"sum": 5.0}, got.Data()); diff != "" || got.State != a2a.TaskStateCompleted || len(got.Parts) != 1 {
				t.Errorf("add: %v %+v\n%s", got.State, got.Parts, diff)
			}
			for _, test := range []struct {
				skill, words string
				state        a2a.TaskState
				want         string
			}{
				{"upper", "hello", a2a.TaskStateCompleted, "HELLO"},
				{"upper", `{"text": "hey"}`, a2a.TaskStateCompleted, "HEY"},
				{"add", "two and three", a2a.TaskStateRejected, `add takes structured input, and the task has none: its schema is {`},
				{"add", `{"a": "x"}`, a2a.TaskStateRejected, `the input does not fit add: `},
				{"fail", "please", a2a.TaskStateFailed, "the disk is full"},
				{"none", "please", a2a.TaskStateRejected, `there is no tool "none": the tools are add, `},
				{"", "please", a2a.TaskStateRejected, "it has several tools, and the task names none of them"},
				{"long", "please", a2a.TaskStateCompleted, ""},
			} {
				got := c.Task(&a2a.Message{Parts: a2a.ContentParts{a2a.NewTextPart(test.words)}, Metadata: map[string]any{transport.MetaTaskType: test.skill}})
				if got.State != test.state || !strings.HasPrefix(got.Text, test.want) {
					t.Errorf("%s %q: %v %.300q, want %v %q", test.skill, test.words, got.State, got.Text, test.state, test.want)
				}
				if test.skill == "long" && (len(got.Artifacts) != 1 || got.Artifacts[0].Name != "result.txt") {
					t.Errorf("a long text became %+v", got.Artifacts)
				}
			}
			read := c.DoSkill("read", map[string]any{})
			if diff := cmp.Diff(a2a.ContentParts{a2a.NewTextPart("a: \"b\"\nc")}, read.Parts); diff != "" {
				t.Errorf("a wrapped text (-want +got)\n%s", diff)
			}
			picture := c.DoSkill("picture", map[string]any{})
			var names []string
			for _, f := range picture.Artifacts {
				names = append(names, f.Name)
			}
			if diff := cmp.Diff([]string{"file-1.png", "2-file-2.png", "3-notes.txt"}, names); diff != "" {
				t.Errorf("files (-want +got)\n%s", diff)
			}
			if n := len(picture.Parts); n != 2 || picture.Parts[1].Content != a2a.URL("https://h/doc") {
				t.Errorf("picture: %+v", picture.Parts)
			}
		})
	}
}

// Each call is a span, whose trace goes along.
func TestSpans(t *testing.T) {
	for name, reach := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var spans agentstest.Spans
			c := agentstest.ServeWith(t, open(t, reach(t), t.TempDir(), nil), nil, &agents.Options{Tracer: &spans})
			transport := "tcp"
			if name == "program" {
				transport = "pipe"
			}
			for _, test := range []struct{ skill, input, failure string }{{"trace", "{}", ""}, {"fail", "{}", "tool_error"}} {
				got := c.DoSkill(test.skill, map[string]any{})
				all := spans.Take()
				if len(all) != 2 {
					t.Fatalf("%d spans, want a call and a task: %+v", len(all), all)
				}
				call, task := all[0], all[1]
				if call.Name != "tools/call "+test.skill || call.Failure != test.failure || call.Traceparent != task.Own || !call.Call {
					t.Errorf("%+v below %s, want a call of %s with the error %q", call, task.Own, test.skill, test.failure)
				}
				for k, want := range map[string]string{"mcp.method.name": "tools/call", "gen_ai.tool.name": test.skill, "gen_ai.operation.name": "execute_tool", "network.transport": transport} {
					if call.More[k] != want {
						t.Errorf("%s is %q, want %q", k, call.More[k], want)
					}
				}
				if test.skill == "trace" && got.Text != call.Own {
					t.Errorf("the server was told %q, want %q", got.Text, call.Own)
				}
			}
		})
	}
}

// The trace of a task goes along.
func TestTrace(t *testing.T) {
	a := open(t, program(t), t.TempDir(), nil)
	task := &agents.Task{ID: "1", Skill: "trace", Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Message: &a2a.Message{ID: "m"}}
	if got, err := do(t, a, task); err != nil || got != task.Traceparent {
		t.Errorf("got %q, %v", got, err)
	}
}

// do has an agent do a task, and returns the words of what came of it.
func do(t *testing.T, a *mcp.Agent, task *agents.Task) (string, error) {
	t.Helper()
	for e, err := range a.Execute(t.Context(), task) {
		if err != nil {
			return "", err
		}
		u := e.(*a2a.TaskStatusUpdateEvent)
		text := ""
		if u.Status.Message != nil {
			text = transport.Text(u.Status.Message.Parts)
		}
		if u.Status.State == a2a.TaskStateInputRequired {
			return "asks: " + text, nil
		}
		return text, nil
	}
	return "", errors.New("nothing came of it")
}

// The card has the tools with their schemas, and what is said of their effects.
func TestCard(t *testing.T) {
	a := open(t, program(t), t.TempDir(), nil)
	card := a.Card()
	if card.Name != "mcp_test" || card.Version != "2.1.0" || card.Description != "Does this and that" {
		t.Errorf("card of %s, version %s: %s", card.Name, card.Version, card.Description)
	}
	abilities := agentcard.SpecOf(card).Abilities
	type effect struct{ Confirm, Once bool }
	got := map[string]effect{}
	for _, k := range card.Skills {
		got[k.ID] = effect{abilities[k.ID].Confirm, abilities[k.ID].Once}
		if abilities[k.ID].InputSchema == nil {
			t.Errorf("%s has no input schema", k.ID)
		}
	}
	want := map[string]effect{
		"add": {}, "upper": {}, "read": {}, "trace": {}, "fail": {}, "picture": {}, "long": {}, "slow": {}, "grow": {}, "huge": {}, "flood": {}, "ask-on": {}, "deafen": {}, "nag": {}, "paid": {},
		"note": {Once: true}, "hold": {Once: true}, "die": {true, true}, "order": {true, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("effects (-want +got)\n%s", diff)
	}
	if abilities["add"].OutputSchema == nil || abilities["upper"].OutputSchema != nil {
		t.Errorf("output schemas: %s, %s", abilities["add"].OutputSchema, abilities["upper"].OutputSchema)
	}
	if s := abilities["read"].OutputSchema; s != nil { // its result is a text, which would be refused
		t.Errorf("output schema of a wrapped text: %s", s)
	}
}

// What a server says goes to the log, without the values of its environment.
func TestStderr(t *testing.T) {
	var log syncBuffer
	a := open(t, program(t), t.TempDir(), slog.New(slog.NewTextHandler(&log, nil)))
	until(t, "the server's words", func() bool { return strings.Contains(log.String(), "the key is ***") })
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log has a secret: %s", log.String())
	}
	_ = a
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Progress is shown, and a cancellation reaches the tool.
func TestProgressAndCancel(t *testing.T) {
	dir := t.TempDir()
	begun, canceled := filepath.Join(dir, "begun"), filepath.Join(dir, "canceled")
	a := open(t, program(t, "CANCELED="+canceled, "NOTES="+begun, "REVISION=2025-11-25"), t.TempDir(), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := agentstest.Serve(t, agents.Handler(func(_ context.Context, task *agents.Task) (*agents.Result, error) {
		for _, err := range a.Execute(ctx, task) {
			return nil, err
		}
		return nil, nil
	}))
	there := func(path string) func() bool { return func() bool { _, err := os.Stat(path); return err == nil } }
	go func() {
		until(t, "the tool begins", there(begun))
		cancel(agents.ErrCanceled)
	}()
	got := c.DoSkill("slow", map[string]any{})
	if got.State != a2a.TaskStateFailed || !strings.Contains(got.Text, agents.ErrCanceled.Error()) || !slices.Contains(got.Progress, "half of it") {
		t.Errorf("got %v %q, progress %q", got.State, got.Text, got.Progress)
	}
	until(t, "the tool hears of it", there(canceled))
}

// A list of tools that changes is another card; what a tool says of itself that is not what it was needs a yes.
func TestToolsChange(t *testing.T) {
	a := open(t, program(t), t.TempDir(), nil)
	if _, err := do(t, a, &agents.Task{ID: "1", Skill: "grow", Message: &a2a.Message{ID: "m"}}); err != nil {
		t.Fatal(err)
	}
	change := <-a.Changes()
	has := false
	for _, k := range change.Card.Skills {
		has = has || k.ID == "grown"
	}
	if !has || change.Draining {
		t.Errorf("the change %+v has no tool that is new", change)
	}
	if got, err := do(t, a, &agents.Task{ID: "2", Skill: "grown", Message: &a2a.Message{ID: "m"}}); err != nil || got != "here" {
		t.Errorf("the new tool: %q, %v", got, err)
	}
}

// A server that dies is started again, and meanwhile the agent drains.
func TestServerDies(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	a := open(t, program(t, "NOTES="+notes), t.TempDir(), nil)
	task := &agents.Task{ID: "1", Skill: "die", Delivery: 1, Message: &a2a.Message{ID: "m", Parts: a2a.ContentParts{a2a.NewTextPart("once")}}}
	for range 2 { // it is not done twice
		if _, err := do(t, a, task); err == nil || !strings.Contains(err.Error(), "the outcome is unknown: the call of die was cut off") {
			t.Errorf("got %v", err)
		}
		task.Delivery++
	}
	if change := <-a.Changes(); !change.Draining {
		t.Errorf("the first change is %+v, want draining", change)
	}
	if change := <-a.Changes(); change.Draining || change.Card == nil {
		t.Errorf("the second change is %+v, want a card", change)
	}
	if got, err := do(t, a, &agents.Task{ID: "2", Skill: "upper", Message: &a2a.Message{ID: "m", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}); err != nil || got != "X" {
		t.Errorf("behind it: %q, %v", got, err)
	}
	if b, err := os.ReadFile(notes); err != nil || string(b) != "once\n" {
		t.Errorf("notes %q, %v", b, err)
	}
}

// A server that does not read its input is started again when a task is given up, and holds nobody up.
func TestServerDoesNotRead(t *testing.T) {
	t.Parallel()
	a := open(t, program(t), t.TempDir(), nil)
	if _, err := do(t, a, task("1", "m", "deafen", "", map[string]any{})); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // by then they are written, as far as they can be
	defer cancel()
	ended := make(chan error, 2)
	for _, id := range []string{"2", "3"} {
		go func() {
			for _, err := range a.Execute(ctx, task(id, "m", "upper", strings.Repeat("x", 300<<10), nil)) {
				ended <- err
			}
		}()
	}
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a server that does not read answers")
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("the task does not end")
		}
	}
	if got, err := do(t, a, task("4", "m", "upper", "x", nil)); err != nil || got != "X" {
		t.Errorf("behind it: %q, %v", got, err)
	}
}

// What cannot be started or reached is told.
func TestOpenFails(t *testing.T) {
	refused := address(t, "stateless")
	refused.Headers = nil
	for want, s := range map[string]*mcp.Server{
		"no-such-program: not found in PATH: check the name":               {Name: "x", Argv: []string{"no-such-program"}},
		"it says: help is on the way":                                      {Name: "x", Argv: []string{"/bin/sh", "-c", "echo help is on the way >&2; exit 1"}, Inherit: true},
		"401 Unauthorized: it wants a login: run `cortex mcp login --url ": refused,
		"there is no program to run":                                       {Name: "x"},
	} {
		a, err := mcp.Open(t.Context(), s, &mcp.Options{Dir: t.TempDir()})
		if err == nil {
			_ = a.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// One process at a time has what an agent keeps.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	open(t, program(t), dir, nil)
	if _, err := mcp.Open(t.Context(), program(t), &mcp.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another process works with") {
		t.Errorf("got %v", err)
	}
}

// The name of a server that is a path leads nowhere.
func TestNameLeadsNowhere(t *testing.T) {
	home := t.TempDir()
	s := program(t)
	s.Name = "x/../../../project"
	open(t, s, filepath.Join(home, "state", "mcp"), nil)
	for dir, want := range map[string]string{home: "state", filepath.Join(home, "state"): "mcp"} {
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 || all[0].Name() != want {
			t.Errorf("%s has %v, %v, want only %s", dir, all, err, want)
		}
	}
}

// Tools that cannot be remembered need a yes.
func TestPinsDamaged(t *testing.T) {
	dir := t.TempDir()
	s := program(t)
	folder := filepath.Join(dir, "mcp_test")
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "tools.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	a := open(t, s, dir, nil)
	for name, ability := range agentcard.SpecOf(a.Card()).Abilities {
		if !ability.Confirm {
			t.Errorf("%s needs no yes", name)
		}
	}
	for _, tool := range a.Tools() {
		if !tool.Doubted {
			t.Errorf("%s is not doubted", tool.Name)
		}
	}
}
