package a2a_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// A2A's conformance kit (github.com/a2aproject/a2a-tck) says by the prefix of a message's id what the agent is to do with it, and gives the same id to
// all messages of a kind, and to follow-ups with another text. Its server under test is the agent "kit" here, and what the kit sends is sent as it sends it.

// kitID returns the id of all messages of a kind.
func kitID(kind string) string { return "tck-" + kind + "-5f2c" }

// kitMessage returns a message as the kit sends it.
func kitMessage(kind, text string) *sdk.SendMessageRequest {
	r := said(text)
	r.Message.ID = kitID(kind)
	return r
}

// scenario returns the id that the client gave to the message that a task is for.
func (w *world) scenario(ctx context.Context, task *agents.Task) (string, error) {
	id := ""
	for e, err := range w.store.Load(ctx, "", task.ContextID, 0) {
		if err != nil {
			return "", err
		}
		if m, ok := transport.Request(e.Cause); ok {
			id = cmp.Or(transport.MetaString(m, "a2a_message_id"), id)
		}
	}
	return id, nil
}

// play plays the scenario that a message's id names.
func (w *world) play(ctx context.Context, task *agents.Task) (*agents.Result, error) {
	id, err := w.scenario(ctx, task)
	if err != nil {
		return nil, err
	}
	file := &sdk.Part{Content: sdk.Raw("tck"), Filename: "output.txt", MediaType: "text/plain"}
	for _, of := range []struct {
		prefix string
		parts  sdk.ContentParts
	}{
		{"tck-artifact-file-url", sdk.ContentParts{{Content: sdk.URL("https://example.com/output.txt"), Filename: "output.txt", MediaType: "text/plain"}}},
		{"tck-artifact-file", sdk.ContentParts{file}},
		{"tck-artifact-data", sdk.ContentParts{sdk.NewDataPart(map[string]any{"key": "value", "count": 42})}},
		{"tck-artifact-text", sdk.ContentParts{sdk.NewTextPart("Generated text content")}},
		{"tck-stream-artifact-file", sdk.ContentParts{file}},
		{"tck-stream-artifact-text", sdk.ContentParts{sdk.NewTextPart("Streamed text content")}},
		{"tck-stream-ordering-001", sdk.ContentParts{sdk.NewTextPart("Ordered output")}},
		{"tck-stream-001", sdk.ContentParts{sdk.NewTextPart("Stream hello from TCK")}},
		{"tck-stream-003", sdk.ContentParts{sdk.NewTextPart("Stream task lifecycle")}},
	} {
		if strings.HasPrefix(id, of.prefix) {
			return nil, task.Artifact("output", of.parts...)
		}
	}
	switch {
	case strings.HasPrefix(id, "tck-stream-artifact-chunked"):
		for i, text := range []string{"chunk-1 ", "chunk-2"} {
			u := &sdk.TaskArtifactUpdateEvent{Artifact: &sdk.Artifact{ID: "output", Parts: sdk.ContentParts{sdk.NewTextPart(text)}}, Append: i > 0, LastChunk: i == 1}
			if err := task.Update(u); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case strings.HasPrefix(id, "tck-input-required"):
		return agents.InputRequired("Input required"), nil
	case strings.HasPrefix(id, "tck-reject-task"):
		return nil, agents.Rejected(errors.New("rejected"))
	case strings.HasPrefix(id, "tck-message-response"):
		return agents.Text("Direct message response"), nil
	case strings.HasPrefix(id, "test-resubscribe-message-id"):
		select {
		case <-w.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return agents.Text("Hello from TCK"), nil
}

// output returns the parts of the artifact that a scenario has made.
func output(task *sdk.Task) sdk.ContentParts {
	for _, a := range task.Artifacts {
		if a.ID != "answer" {
			return a.Parts
		}
	}
	return nil
}

// TestKit plays the scenarios of the kit, in the three bindings.
func TestKit(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil) + "/agents/kit"
	for _, binding := range bindings {
		c := w.join(binding, url)
		at := " " + string(binding)
		completed := func(t *testing.T) *sdk.Task {
			t.Helper()
			task := w.send(c, kitMessage("complete-task", "TCK prerequisite task creation"))
			if task.Status.State != sdk.TaskStateCompleted {
				t.Fatalf("%+v", task.Status)
			}
			return task
		}
		working := func(t *testing.T) *sdk.Task {
			t.Helper()
			task := w.send(c, kitMessage("input-required", "TCK prerequisite task creation"))
			if task.Status.State != sdk.TaskStateInputRequired {
				t.Fatalf("%+v", task.Status)
			}
			return task
		}
		multi := func(t *testing.T) *sdk.Task {
			t.Helper()
			task := w.send(c, in(kitMessage("complete-task", "TCK follow-up for history"), "", working(t).ID))
			if task.Status.State != sdk.TaskStateCompleted {
				t.Fatalf("%+v", task.Status)
			}
			return task
		}

		t.Run("CORE-SEND-001 CORE-GET-001 CORE-MULTI-003"+at, func(t *testing.T) {
			a, b := completed(t), completed(t)
			if a.ID == b.ID || answer(w.get(c, a.ID)) != "Hello from TCK" {
				t.Errorf("%+v", a)
			}
		})
		t.Run("CORE-EXECUTION-MODE-001"+at, func(t *testing.T) { multi(t) })
		t.Run("CORE-MULTI-005"+at, func(t *testing.T) {
			task := working(t)
			if next := w.send(c, in(kitMessage("infer-ctx", "Follow-up message"), "", task.ID)); next.ContextID != task.ContextID {
				t.Errorf("%+v", next)
			}
		})
		for kind, want := range map[string]func(p *sdk.Part) bool{
			"artifact-text": func(p *sdk.Part) bool { return p.Text() == "Generated text content" },
			"artifact-file": func(p *sdk.Part) bool {
				return string(p.Raw()) == "tck" && p.Filename == "output.txt" && p.MediaType == "text/plain"
			},
			"artifact-file-url": func(p *sdk.Part) bool {
				return p.URL() == "https://example.com/output.txt" && p.Filename == "output.txt" && p.MediaType == "text/plain"
			},
			"artifact-data": func(p *sdk.Part) bool {
				m, _ := p.Data().(map[string]any)
				return m["key"] == "value" && m["count"] == 42.0
			},
		} {
			t.Run("DM-ART-001 DM-PART-001 "+kind+at, func(t *testing.T) {
				task := w.send(c, kitMessage(kind, "make it"))
				if parts := output(task); task.Status.State != sdk.TaskStateCompleted || len(parts) != 1 || !want(parts[0]) {
					t.Errorf("%+v %+v", task.Status, task.Artifacts)
				}
			})
		}
		t.Run("a task that the agent rejects"+at, func(t *testing.T) {
			if task := w.send(c, kitMessage("reject-task", "no")); task.Status.State != sdk.TaskStateFailed || !strings.Contains(text(task.Status.Message.Parts), "rejected") {
				t.Errorf("%+v", task.Status)
			}
		})
		t.Run("DM-MSG-001 is answered with a task"+at, func(t *testing.T) {
			if task := w.send(c, kitMessage("message-response", "hello")); answer(task) != "Direct message response" {
				t.Errorf("%+v", task)
			}
		})

		t.Run("CORE-HIST-001"+at, func(t *testing.T) {
			now, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: multi(t).ID, HistoryLength: new(int)})
			must(t, err)
			if len(now.History) != 0 {
				t.Errorf("%d messages", len(now.History))
			}
		})
		t.Run("CORE-HIST-002"+at, func(t *testing.T) {
			one := 1
			now, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: multi(t).ID, HistoryLength: &one})
			must(t, err)
			if len(now.History) != 1 || text(now.History[0].Parts) != "TCK follow-up for history" {
				t.Errorf("%+v", now.History)
			}
		})
		t.Run("CORE-HIST-003"+at, func(t *testing.T) {
			r := in(kitMessage("complete-task", "Follow-up with no history"), "", working(t).ID)
			r.Config = &sdk.SendMessageConfig{HistoryLength: new(int)}
			if task := w.send(c, r); len(task.History) != 0 {
				t.Errorf("%d messages", len(task.History))
			}
		})
		t.Run("CORE-HIST-004 CORE-HIST-005 CORE-HIST-006"+at, func(t *testing.T) {
			// Both follow-ups have the id of the first message, and other texts.
			first := working(t)
			w.send(c, in(kitMessage("input-required", "Second message"), "", first.ID))
			w.send(c, in(kitMessage("complete-task", "Third message"), "", first.ID))
			ten := 10
			now, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: first.ID, HistoryLength: &ten})
			must(t, err)
			var users []string
			for _, m := range now.History {
				if m.Role == sdk.MessageRoleUser {
					users = append(users, m.ID+": "+text(m.Parts))
				}
			}
			want := []string{kitID("input-required") + ": TCK prerequisite task creation", kitID("input-required") + ": Second message", kitID("complete-task") + ": Third message"}
			if fmt.Sprint(users) != fmt.Sprint(want) {
				t.Errorf("%q", users)
			}
		})

		t.Run("CORE-CANCEL-001 CORE-CANCEL-002"+at, func(t *testing.T) {
			task := working(t)
			got, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: task.ID})
			if err != nil || got.ID != task.ID || got.Status.State != sdk.TaskStateCanceled {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: completed(t).ID}); !errors.Is(err, sdk.ErrTaskNotCancelable) {
				t.Error(err)
			}
		})
		t.Run("CORE-SEND-002 CORE-MULTI-006"+at, func(t *testing.T) {
			if _, err := c.SendMessage(t.Context(), in(kitMessage("terminal", "Follow-up to terminal task"), "", completed(t).ID)); !errors.Is(err, sdk.ErrUnsupportedOperation) {
				t.Error(err)
			}
			if _, err := c.SendMessage(t.Context(), in(kitMessage("mismatch", "Mismatched context test"), "tck-wrong-context", working(t).ID)); !errors.Is(err, sdk.ErrInvalidParams) {
				t.Error(err)
			}
		})

		for kind, want := range map[string]string{
			"stream-001": "Stream hello from TCK", "stream-003": "Stream task lifecycle", "stream-ordering-001": "Ordered output",
			"stream-artifact-text": "Streamed text content", "stream-artifact-file": "tck", "stream-artifact-chunked": "chunk-1 chunk-2", "stream-002": "",
		} {
			t.Run("STREAM-ORDER-001 CORE-STREAM-003 "+kind+at, func(t *testing.T) {
				events := collect(t, c.SendStreamingMessage(t.Context(), kitMessage(kind, "stream it")))
				if first, ok := events[0].(*sdk.Task); !ok || first.Status.State.Terminal() {
					t.Errorf("first: %+v", events[0])
				}
				if last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent); !ok || last.Status.State != sdk.TaskStateCompleted {
					t.Errorf("last: %+v", events[len(events)-1])
				}
				got, whole := "", false
				for _, e := range events {
					if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok && u.Artifact.ID != "answer" {
						if !u.Append {
							got = ""
						}
						for _, p := range u.Artifact.Parts {
							got += p.Text() + string(p.Raw())
						}
						whole = u.LastChunk
					}
				}
				if got != want || whole != (want != "") {
					t.Errorf("the artifact is %q, whole: %v", got, whole)
				}
			})
		}

		t.Run("STREAM-SUB-001"+at, func(t *testing.T) {
			task := working(t)
			if s := snapshot(t, c, task.ID); s.State != sdk.TaskStateInputRequired {
				t.Errorf("%+v", s)
			}
		})
		t.Run("STREAM-SUB-002 STREAM-ORDER-002 STREAM-ORDER-003"+at, func(t *testing.T) {
			task := working(t)
			streams := followAll(t, c, task.ID, 2)
			w.send(c, in(kitMessage("complete-task", "Complete multi-stream task"), "", task.ID))
			a, b := <-streams[0], <-streams[1]
			if len(a) < 2 || strings.Join(a, "\n") != strings.Join(b, "\n") {
				t.Errorf("one stream:\n%s\nthe other:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
			if !strings.Contains(a[len(a)-1], string(sdk.TaskStateCompleted)) {
				t.Errorf("the last event is %s", a[len(a)-1])
			}
		})
		t.Run("STREAM-ORDER-004"+at, func(t *testing.T) {
			task := working(t)
			stay := followAll(t, c, task.ID, 1)[0]
			snapshot(t, c, task.ID) // a stream that is closed after its first event
			w.send(c, in(kitMessage("complete-task", "Complete multi-stream task"), "", task.ID))
			if all := <-stay; len(all) < 2 {
				t.Errorf("%q", all)
			}
		})
		t.Run("STREAM-SUB-003"+at, func(t *testing.T) {
			for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: completed(t).ID}) {
				if !errors.Is(err, sdk.ErrUnsupportedOperation) {
					t.Errorf("%+v, %v", e, err)
				}
			}
		})
		t.Run("STREAM-SUB-004"+at, func(t *testing.T) {
			for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: sdk.TaskID(kitID("nonexistent-sub-004"))}) {
				if !errors.Is(err, sdk.ErrTaskNotFound) {
					t.Errorf("%+v, %v", e, err)
				}
			}
		})
	}
}

// followAll subscribes n times to a task, and returns where the events of each stream come when it has ended. It returns when all have begun.
func followAll(t *testing.T, c *a2aclient.Client, id sdk.TaskID, n int) []chan []string {
	t.Helper()
	all := make([]chan []string, n)
	for i := range all {
		all[i] = make(chan []string, 1)
		begun := make(chan struct{})
		go func() {
			var events []string
			for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: id}) {
				if err != nil {
					t.Error(err)
					break
				}
				b, err := json.Marshal(e)
				if err != nil {
					t.Error(err)
				}
				if events = append(events, string(b)); len(events) == 1 {
					close(begun)
				}
			}
			all[i] <- events
		}()
		select {
		case <-begun:
		case <-time.After(time.Minute):
			t.Fatal("a subscription does not begin")
		}
	}
	return all
}

// TestKitWire sends what the kit sends as raw HTTP: keys in snake_case, a Python dict as text, another version.
func TestKitWire(t *testing.T) {
	w := newWorld(t, false)
	base := w.serve(w.server(), nil)
	url := base + "/agents/kit"
	message := func(kind, more string) string {
		return `{"message":{"role":"ROLE_USER","parts":[{"text":"hello"}],"messageId":"` + kitID(kind) + `"` + more + `}}`
	}
	made := func(t *testing.T, kind, more string) string {
		t.Helper()
		result, _, _ := rpc(t, url, "SendMessage", message(kind, more))
		var got a2apb.SendMessageResponse
		strict(t, result, &got)
		return got.GetTask().GetId()
	}
	t.Run("CORE-HIST-001 CORE-HIST-002 history_length", func(t *testing.T) {
		id := made(t, "input-required", "")
		made(t, "complete-task", `,"taskId":"`+id+`"`)
		for n := range 3 {
			result, _, _ := rpc(t, url, "GetTask", fmt.Sprintf(`{"id":%q,"history_length":%d}`, id, n))
			var got a2apb.Task
			strict(t, result, &got)
			_, _, body := do(t, http.MethodGet, fmt.Sprintf("%s/tasks/%s?historyLength=%d", url, id, n), "")
			if len(got.GetHistory()) != n || strings.TrimSpace(body) != string(result) || n == 0 && strings.Contains(body, `"history"`) {
				t.Errorf("%d: %s\n%s", n, result, body)
			}
		}
	})
	t.Run("CORE-LIST-001 CORE-LIST-003 CORE-LIST-004 CORE-LIST-005 snake_case", func(t *testing.T) {
		in := kitID("test-context")
		lists := func(of string, m *a2apb.ListTasksResponse) {
			t.Helper()
			params, query := map[string]any{}, ""
			for pair := range strings.FieldsSeq(of) {
				key, value, _ := strings.Cut(pair, "=")
				var v any = value
				if json.Unmarshal([]byte(value), &v) != nil {
					v = value
				}
				params[key], query = v, query+"&"+pair
			}
			b, err := json.Marshal(params)
			must(t, err)
			result, _, _ := rpc(t, url, "ListTasks", string(b))
			strict(t, result, m)
			_, _, body := do(t, http.MethodGet, url+"/tasks?"+query[1:], "")
			var same a2apb.ListTasksResponse
			strict(t, []byte(body), &same)
			if same.GetNextPageToken() != "" && m.GetNextPageToken() != "" { // it has the time of the call
				same.NextPageToken = m.GetNextPageToken()
			}
			if !proto.Equal(&same, m) {
				t.Errorf("%s\n%s", result, body)
			}
			for _, key := range []string{`"tasks":[`, `"nextPageToken":`, `"pageSize":`, `"totalSize":`} {
				if !strings.Contains(body, key) {
					t.Errorf("there is no %s: %s", key, body)
				}
			}
		}
		var none, all, page, whole a2apb.ListTasksResponse
		lists("context_id="+in, &none)
		if len(none.GetTasks()) != 0 || none.GetPageSize() != 50 {
			t.Errorf("%v", &none)
		}
		for i := range 3 {
			made(t, fmt.Sprint("complete-task-", i), `,"contextId":"`+in+`"`)
		}
		lists("context_id="+in+" page_size=100", &all)
		if len(all.GetTasks()) != 3 || all.GetNextPageToken() != "" {
			t.Fatalf("%v", &all)
		}
		for i, task := range all.GetTasks() {
			if len(task.GetArtifacts()) != 0 {
				t.Errorf("artifacts: %v", task)
			}
			if i > 0 && task.GetStatus().GetTimestamp().AsTime().After(all.GetTasks()[i-1].GetStatus().GetTimestamp().AsTime()) {
				t.Error("the order is not that of the times, the newest first")
			}
		}
		lists("context_id="+in+" page_size=2", &page)
		if len(page.GetTasks()) != 2 || page.GetNextPageToken() == "" || page.GetTotalSize() != 3 {
			t.Errorf("%v", &page)
		}
		lists("context_id="+in+" include_artifacts=true", &whole)
		if len(whole.GetTasks()) != 3 || len(whole.GetTasks()[0].GetArtifacts()) == 0 {
			t.Errorf("%v", &whole)
		}
		result, _, _ := rpc(t, url, "ListTasks", `{"context_id":"`+in+`","page_size":2,"page_token":"`+page.GetNextPageToken()+`"}`)
		var rest a2apb.ListTasksResponse
		strict(t, result, &rest)
		if len(rest.GetTasks()) != 1 || rest.GetNextPageToken() != "" || rest.GetTasks()[0].GetId() != all.GetTasks()[2].GetId() {
			t.Errorf("CORE-LIST-002: %v", &rest)
		}
	})
	t.Run("JSONRPC-SSE-002 content type", func(t *testing.T) {
		python := `{'jsonrpc': '2.0', 'id': 1, 'method': 'SendMessage', 'params': {'message': {'role': 'ROLE_USER', 'parts': [{'text': 'content type test'}], 'messageId': 'tck-error-code-005'}}}`
		for _, body := range []string{python, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + message("error-code-005", "") + `}`} {
			code, _, got := do(t, http.MethodPost, url, body, "Content-Type", "text/plain")
			if code != http.StatusUnsupportedMediaType || !strings.Contains(got, "-32005") || !strings.Contains(got, "CONTENT_TYPE_NOT_SUPPORTED") {
				t.Errorf("%d %s", code, got)
			}
		}
	})
	t.Run("JSONRPC-SSE-002 VER-SERVER-002 version", func(t *testing.T) {
		if _, code, reason := rpc(t, url, "SendMessage", message("error-code-009", ""), "A2A-Version", "99.0"); code != -32009 || reason != "VERSION_NOT_SUPPORTED" {
			t.Errorf("%d %s", code, reason)
		}
	})
	t.Run("HTTP_JSON-STATUS-001 VER-SERVER-002 version", func(t *testing.T) {
		if code, _, body := do(t, http.MethodPost, url+"/message:send", message("status-ver-006", ""), "A2A-Version", "99.0"); code != http.StatusBadRequest || !strings.Contains(body, "VERSION_NOT_SUPPORTED") {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("HTTP_JSON-STATUS-001 content type", func(t *testing.T) {
		if code, _, body := do(t, http.MethodPost, url+"/message:send", message("status-ct-004", ""), "Content-Type", "text/plain"); code != http.StatusUnsupportedMediaType || !strings.Contains(body, "CONTENT_TYPE_NOT_SUPPORTED") {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("STREAM-SUB-003 before the stream begins", func(t *testing.T) {
		id := made(t, "complete-task", "")
		code, h, body := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"`+id+`"}}`)
		if code != http.StatusOK || h.Get("Content-Type") != "application/json" || !strings.Contains(body, "-32004") {
			t.Errorf("%d %s %s", code, h.Get("Content-Type"), body)
		}
		code, h, body = do(t, http.MethodGet, url+"/tasks/"+id+":subscribe", "")
		if code != http.StatusBadRequest || h.Get("Content-Type") != "application/json" || !strings.Contains(body, "UNSUPPORTED_OPERATION") {
			t.Errorf("%d %s %s", code, h.Get("Content-Type"), body)
		}
	})
	t.Run("DM-SERIAL-001 DM-SERIAL-003 DM-SERIAL-005", func(t *testing.T) {
		params := `{"message":{"role":"ROLE_USER","parts":[{"text":"x"}],"messageId":"tck-dm-serial-005","tckUnknownField":"should-be-ignored"},"tckExtraParam":42}`
		result, _, _ := rpc(t, url, "SendMessage", params)
		_, _, body := do(t, http.MethodPost, url+"/message:send", params)
		for _, b := range []string{string(result), body} {
			var got a2apb.SendMessageResponse
			strict(t, []byte(b), &got)
			if got.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(b, `Z"`) {
				t.Errorf("%s", b)
			}
			var keys any
			must(t, json.Unmarshal([]byte(b), &keys))
			noSnake(t, keys)
		}
	})
	t.Run("JSONRPC-SVC-002 HTTP_JSON-SVC-002 other extensions", func(t *testing.T) {
		uris := "https://example.com/ext/v1,https://example.com/ext/v2"
		code, h, body := do(t, http.MethodPost, url+"/message:send", message("svc-002-ext", ""), "A2A-Extensions", uris)
		if code != http.StatusOK || h.Get("A2A-Extensions") != "" {
			t.Errorf("%d %s", code, body)
		}
		if _, code, reason := rpc(t, url, "SendMessage", message("jsonrpc-svc-002-ext", ""), "A2A-Extensions", uris); code != 0 {
			t.Errorf("%d %s", code, reason)
		}
	})
	t.Run("JSONRPC-SSE-001 HTTP_JSON-SSE-001", func(t *testing.T) {
		_, h, body := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":7,"method":"SendStreamingMessage","params":`+message("sse-streaming-001", "")+`}`)
		_, own, plain := do(t, http.MethodPost, url+"/message:stream", message("sse-streaming-001", ""))
		if !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || !strings.HasPrefix(own.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s, %s", h.Get("Content-Type"), own.Get("Content-Type"))
		}
		n := 0
		for _, data := range dataOf(body) {
			var said struct {
				JSONRPC string
				ID      int
				Result  json.RawMessage
			}
			must(t, json.Unmarshal([]byte(data), &said))
			strict(t, said.Result, &a2apb.StreamResponse{})
			if n++; said.JSONRPC != "2.0" || said.ID != 7 {
				t.Errorf("%s", data)
			}
		}
		for _, data := range dataOf(plain) {
			strict(t, []byte(data), &a2apb.StreamResponse{})
			n++
		}
		if n < 4 {
			t.Errorf("%s\n%s", body, plain)
		}
	})
}

// dataOf returns the events of a stream.
func dataOf(body string) []string {
	var all []string
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, strings.TrimSpace(data))
		}
	}
	return all
}

// noSnake reports keys in snake_case.
func noSnake(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			if strings.Contains(key, "_") {
				t.Errorf("the key %s", key)
			}
			noSnake(t, of)
		}
	case []any:
		for _, of := range v {
			noSnake(t, of)
		}
	}
}
