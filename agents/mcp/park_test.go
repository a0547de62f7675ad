package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/mcp"
	"github.com/cortex-orchestrator/cortex/transport"
)

const maxParked = 64

// of is a task for somebody.
func of(owner string, t *agents.Task) *agents.Task {
	if t.Message.Metadata == nil {
		t.Message.Metadata = map[string]any{}
	}
	t.Message.Metadata[transport.MetaRequester] = owner
	return t
}

// asker is a server that waits in its call for the answer to a question.
type asker struct {
	before   func()            // is called before it asks
	withdraw chan struct{}     // once for each question that it does not wait for any more
	again    chan struct{}     // once for each that it asks then
	ended    atomic.Int32      // calls
	refuse   string            // the text of calls for which it has no time
	statuses map[string]string // what it says to others, by status and body
}

// open returns the server's agent.
func (s *asker) open(t *testing.T, dir string) *mcp.Agent {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{"2025-06-18"}})
	sdk.AddTool(server, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, in words) (*sdk.CallToolResult, any, error) {
		defer s.ended.Add(1)
		if s.before != nil {
			s.before()
		}
		ask := func(ctx context.Context, text string) (string, error) {
			got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: text, RequestedSchema: map[string]any{
				"type": "object", "required": []string{"meal"}, "properties": map[string]any{"meal": map[string]any{"type": "string"}},
			}})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(got.Action, " ", got.Content["meal"]), nil
		}
		asking, withdraw := context.WithCancel(ctx)
		defer withdraw()
		go func() {
			select {
			case <-s.withdraw:
				withdraw()
			case <-asking.Done():
			}
		}()
		what := "What?"
		if in.Text == "too much" {
			what = strings.Repeat("x", 17<<20)
		}
		said, err := ask(asking, what)
		switch {
		case err != nil && in.Text == "too much":
			said = "no answer: " + err.Error()
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil && in.Text == "twice":
			select {
			case <-s.again:
			case <-ctx.Done():
			}
			if said, err = ask(ctx, "And now?"); err != nil {
				return nil, nil, err
			}
		case err != nil:
			said = "chosen without you"
		}
		return text(said), nil, nil
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(b))
		if s.refuse != "" && bytes.Contains(b, fmt.Appendf(nil, `"text":%q`, s.refuse)) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for text, body := range s.statuses {
			if bytes.Contains(b, fmt.Appendf(nil, `"text":%q`, text)) {
				status, _ := strconv.Atoi(text)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
				return
			}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return open(t, at(t, web.URL), dir, nil)
}

// hears says how what came of a task begins, and what it has.
func hears(t *testing.T, a *mcp.Agent, task *agents.Task, begin string, has ...string) {
	t.Helper()
	got, err := do(t, a, task)
	if err != nil {
		got = "error: " + err.Error()
	}
	for _, want := range has {
		if !strings.Contains(got, want) {
			t.Errorf("%s hears %q, want %q in it", task.ID, got, want)
		}
	}
	if !strings.HasPrefix(got, begin) {
		t.Errorf("%s hears %q, want %q", task.ID, got, begin)
	}
}

// TestManyQuestions has as many questions wait as may. Who has most makes room for others, is told so, and gets no more; a task that is canceled, or whose
// call has ended, makes room as well.
func TestManyQuestions(t *testing.T) {
	s := &asker{withdraw: make(chan struct{})}
	a := s.open(t, t.TempDir())
	ada := func(i int) *agents.Task {
		return of("user:ada", task(fmt.Sprint("ada", i), fmt.Sprint("m", i), "ask", "", map[string]any{"text": "once"}))
	}
	bob := func(i int) *agents.Task {
		return of("user:bob", task(fmt.Sprint("bob", i), fmt.Sprint("m", i), "ask", "", map[string]any{"text": "once"}))
	}
	for i := range maxParked {
		hears(t, a, ada(i), "asks: What?")
	}
	hears(t, a, ada(100), "error: ", "64 of its questions wait for answers: answer or cancel some of them, and ask again")
	until(t, "its call ends", func() bool { return s.ended.Load() == 1 })

	hears(t, a, bob(0), "asks: What?")
	until(t, "the oldest call ends", func() bool { return s.ended.Load() == 2 })
	hears(t, a, of("user:ada", reply("ada0", "r0", "fish")), "error: ", "made room", "ask again for all of it")
	hears(t, a, of("user:bob", reply("bob0", "r0", "soup")), "accept soup")
	hears(t, a, of("user:ada", reply("ada1", "r1", "fish")), "accept fish")
	hears(t, a, ada(101), "asks: What?")
	hears(t, a, ada(102), "asks: What?")

	hears(t, a, ada(103), "error: ", "64 of its questions wait")
	a.Canceled("", "c", "ada2")
	a.Canceled("", "other", "ada3")
	until(t, "the canceled call ends", func() bool { return s.ended.Load() == 6 })
	hears(t, a, of("user:ada", reply("ada2", "r2", "fish")), "error: ", "does not wait for this answer any more")
	hears(t, a, ada(104), "asks: What?")
	hears(t, a, of("user:ada", reply("ada3", "r3", "fish")), "accept fish")
	hears(t, a, ada(105), "asks: What?")

	s.withdraw <- struct{}{} // of any call, which ends with it
	until(t, "a question is withdrawn, and its call ends", func() bool { return a.Ended() == 1 })
	hears(t, a, ada(106), "asks: What?")
	hears(t, a, ada(107), "error: ", "64 of its questions wait")
	for i := range 107 { // the server would wait for the answers to them
		a.Canceled("", "c", ada(i).ID)
	}
	until(t, "all calls end", func() bool { return s.ended.Load() == maxParked+9 })
}

// TestStatuses has calls fail by the status of their responses: each fails alone, and a question that is open in the same session can be answered.
func TestStatuses(t *testing.T) {
	s := &asker{statuses: map[string]string{
		"400": "what?", "413": "<html>too large</html>", "429": "", "500": `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no soup"}}`, "504": "",
	}}
	a := s.open(t, t.TempDir())
	hears(t, a, task("open", "m", "ask", "", map[string]any{"text": "x"}), "asks: What?")
	for text, want := range map[string]string{"400": "400 Bad Request", "413": "413 Request Entity Too Large", "429": "429 Too Many Requests", "500": "no soup", "504": "may be done all the same"} {
		hears(t, a, task(text, "m"+text, "ask", "", map[string]any{"text": text}), "error: ", want)
	}
	select {
	case c := <-a.Changes():
		t.Errorf("it says %+v", c)
	default:
	}
	hears(t, a, reply("open", "r", "soup"), "accept soup")
}

// TestForgottenQuestions has as many people as may ask one thing each: the next one gets a place at once, and who has one already gets another when
// somebody's question has waited for long.
func TestForgottenQuestions(t *testing.T) {
	s := &asker{}
	a := s.open(t, t.TempDir())
	ask := func(i int, task string) *agents.Task {
		return of(fmt.Sprint("user:", i), asking(task))
	}
	for i := range maxParked + 1 {
		hears(t, a, ask(i, fmt.Sprint("first", i)), "asks: What?")
	}
	until(t, "the oldest call ends", func() bool { return s.ended.Load() == 1 })
	hears(t, a, ask(5, "second5"), "error: ", "64 of its questions wait")
	a.Age(time.Hour)
	hears(t, a, ask(5, "third5"), "asks: What?")
	until(t, "another call ends", func() bool { return s.ended.Load() == 3 })
	hears(t, a, of("user:1", reply("first1", "r", "fish")), "error: ", "made room", "ask again for all of it")
	hears(t, a, of("user:5", reply("first5", "r", "soup")), "accept soup")
	for i := range maxParked + 1 { // the server would wait for the answers to them
		a.Canceled("", "c", a2a.TaskID(fmt.Sprint("first", i)))
	}
	a.Canceled("", "c", "third5")
	until(t, "all calls end", func() bool { return s.ended.Load() == maxParked+3 })
}

// asking is a task whose call asks once.
func asking(id string) *agents.Task {
	return task(id, "m", "ask", "", map[string]any{"text": "once"})
}

// TestQuestionTooLarge has a server ask more than is read: it is told so, its call goes on, and so do those of others.
func TestQuestionTooLarge(t *testing.T) {
	s := &asker{}
	a := s.open(t, t.TempDir())
	hears(t, a, asking("1"), "asks: What?")
	hears(t, a, task("2", "m", "ask", "", map[string]any{"text": "too much"}), "no answer: ", "a request that is too large to be read")
	hears(t, a, reply("1", "r", "fish"), "accept fish")
}

// TestLateAnswer answers questions for which the server has not waited: it is told, beside the result or the next question.
func TestLateAnswer(t *testing.T) {
	const late = "The server did not wait for your answer, and has gone on without it."
	s := &asker{withdraw: make(chan struct{}), again: make(chan struct{})}
	a := s.open(t, t.TempDir())
	withdraw := func(of *agents.Task) {
		t.Helper()
		s.withdraw <- struct{}{}
		until(t, "the question is withdrawn", func() bool { parked, asked := a.Waiting(of); return parked && !asked })
	}
	one := task("1", "m1", "ask", "", map[string]any{"text": "once"})
	hears(t, a, one, "asks: What?")
	withdraw(one)
	for delivery := range 2 {
		r := reply("1", "r1", "fish")
		r.Delivery += delivery
		hears(t, a, r, late, "chosen without you")
	}
	two := task("2", "m2", "ask", "", map[string]any{"text": "twice"})
	hears(t, a, two, "asks: What?")
	withdraw(two)
	s.again <- struct{}{}
	hears(t, a, reply("2", "r2", "fish"), "asks: "+late+"\nAnd now?")
	hears(t, a, reply("2", "r3", "soup"), "accept soup")
}

// TestAnswerInAnEndingSession has a call fail while another one waits for its user, so that the session ends: the answer, which cannot reach the server any
// more, is told so.
func TestAnswerInAnEndingSession(t *testing.T) {
	s := &asker{withdraw: make(chan struct{}), refuse: "refused"}
	a := s.open(t, t.TempDir())
	hears(t, a, task("1", "m1", "ask", "", map[string]any{"text": "once"}), "asks: What?")
	hears(t, a, task("2", "m2", "ask", "", map[string]any{"text": "refused"}), "error: ")
	hears(t, a, reply("1", "r1", "fish"), "error: ", "does not wait for this answer any more")
	close(s.withdraw) // the server ends its call, if it has not when the session ended
}

// TestWithdrawnCall has a server go on when it has withdrawn its question: the call is stopped when that takes too long, since others wait for it.
func TestWithdrawnCall(t *testing.T) {
	s := &asker{withdraw: make(chan struct{}), again: make(chan struct{})}
	a := s.open(t, t.TempDir())
	a.SetWithdrawnTime(time.Millisecond)
	one := of("user:ada", task("1", "m1", "ask", "", map[string]any{"text": "twice"}))
	hears(t, a, one, "asks: What?")
	s.withdraw <- struct{}{}
	until(t, "the call is stopped", func() bool { return s.ended.Load() == 1 })
	if t.Failed() {
		close(s.again) // the server would wait for it
		return
	}
	hears(t, a, of("user:bob", task("2", "m2", "ask", "", map[string]any{"text": "once"})), "asks: What?")
	hears(t, a, of("user:bob", reply("2", "r2", "soup")), "accept soup")
	hears(t, a, of("user:ada", reply("1", "r1", "fish")), "error: ", "gone on without the answer for too long")
}

// TestQuestionNotKept has more questions than may wait that cannot be kept: the calls end, the session goes on, and no place is lost.
func TestQuestionNotKept(t *testing.T) {
	s := &asker{withdraw: make(chan struct{})}
	dir := t.TempDir()
	a := s.open(t, dir)
	hears(t, a, task("first", "m", "ask", "", map[string]any{"text": "once"}), "asks: What?")
	calls := filepath.Join(dir, a.ID(), "calls")
	s.before = func() { // no folder can be made where a file is
		if err := os.Rename(calls, calls+"-away"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(calls, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	for i := range maxParked + 1 {
		one := task(fmt.Sprint(i), "m", "ask", "", map[string]any{"text": "once"})
		hears(t, a, one, "error: ", "cannot be kept")
		if parked, _ := a.Waiting(one); parked {
			t.Errorf("%d has a place", i)
		}
		if err := os.Remove(calls); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(calls+"-away", calls); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the calls end", func() bool { return s.ended.Load() == maxParked+1 })
	s.before = nil
	hears(t, a, task("last", "m", "ask", "", map[string]any{"text": "once"}), "asks: What?")
	hears(t, a, reply("last", "r", "fish"), "accept fish")
	hears(t, a, reply("first", "r", "soup"), "accept soup")
}
