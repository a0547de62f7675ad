package a2a_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/cortex-orchestrator/cortex/transport"
)

// The names of the subtests are those of the requirements in A2A's conformance kit.

func TestCard(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, agent := range []string{"", "/agents/worker"} {
		code, h, body := do(t, http.MethodGet, url+agent+"/.well-known/agent-card.json", "")
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		strict(t, []byte(body), &a2apb.AgentCard{})
		t.Run("CARD-CACHE-001"+agent, func(t *testing.T) {
			if c := h.Get("Cache-Control"); !strings.Contains(c, "max-age=") {
				t.Errorf("Cache-Control: %s", c)
			}
		})
		t.Run("CARD-CACHE-002"+agent, func(t *testing.T) {
			if h.Get("ETag") == "" {
				t.Error("there is no ETag")
			}
			if code, _, body := do(t, http.MethodGet, url+agent+"/.well-known/agent-card.json", "", "If-None-Match", h.Get("ETag")); code != http.StatusNotModified || body != "" {
				t.Errorf("with the ETag: %d %s", code, body)
			}
			if code, _, _ := do(t, http.MethodGet, url+agent+"/.well-known/agent-card.json", "", "If-None-Match", `"other"`); code != http.StatusOK {
				t.Errorf("with another ETag: %d", code)
			}
		})
		t.Run("CARD-CACHE-003"+agent, func(t *testing.T) {
			if _, err := http.ParseTime(h.Get("Last-Modified")); err != nil {
				t.Error(err)
			}
		})
		t.Run("CARD-STRUCT"+agent, func(t *testing.T) {
			var card map[string]any
			must(t, json.Unmarshal([]byte(body), &card))
			for _, key := range []string{"name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"} {
				if card[key] == nil || card[key] == "" {
					t.Errorf("%s is %v", key, card[key])
				}
			}
			if can := card["capabilities"].(map[string]any); can["streaming"] != true || can["extendedAgentCard"] != true || can["pushNotifications"] == true {
				t.Errorf("capabilities: %v", can)
			}
		})
		t.Run("the SDK reads it and calls"+agent, func(t *testing.T) {
			card, err := agentcard.DefaultResolver.Resolve(t.Context(), url+agent)
			must(t, err)
			c, err := a2aclient.NewFromCard(t.Context(), card)
			must(t, err)
			if got := w.send(c, said("hello")); answer(got) != "done: hello" {
				t.Errorf("%+v", got)
			}
		})
	}
	if code, _, _ := do(t, http.MethodGet, url+"/agents/nobody/.well-known/agent-card.json", ""); code != http.StatusNotFound {
		t.Errorf("the card of nobody: %d", code)
	}
	if code, _, body := do(t, http.MethodGet, url+"/extendedAgentCard", ""); code != http.StatusOK || !strings.Contains(body, `"worker/do"`) {
		t.Errorf("the extended card: %d %s", code, body)
	}
}

func TestCardNamesItsScheme(t *testing.T) {
	w := newWorld(t, true)
	url := w.serve(w.server(), func(string) (string, error) { return "", errors.New("no") })
	_, _, body := do(t, http.MethodGet, url+"/.well-known/agent-card.json", "")
	var card a2apb.AgentCard
	strict(t, []byte(body), &card)
	if got := card.GetSecurityRequirements(); len(got) != 1 || got[0].GetSchemes()["bearer"] == nil || card.GetSecuritySchemes()["bearer"].GetHttpAuthSecurityScheme().GetScheme() != "Bearer" {
		t.Errorf("%s", body)
	}
}

func TestVersion(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for version, want := range map[string]bool{"1.0": true, "1.0.1": true, "": false, "0.3": false, "1.1": false, "99.0": false, "1": false, "x\"y": false} {
		t.Run("VER-SERVER-002 "+version, func(t *testing.T) {
			for _, method := range []string{"ListTasks", "SendStreamingMessage", "SubscribeToTask"} {
				_, code, reason := rpc(t, url, method, `{}`, "A2A-Version", version)
				if got := code != -32009; got != want {
					t.Errorf("%s: %d %s", method, code, reason)
				}
				if !want && reason != "VERSION_NOT_SUPPORTED" {
					t.Errorf("%s: %s", method, reason)
				}
			}
			code, _, body := do(t, http.MethodGet, url+"/tasks", "", "A2A-Version", version)
			if got := code == http.StatusOK; got != want || !want && (code != http.StatusBadRequest || !strings.Contains(body, `"VERSION_NOT_SUPPORTED"`)) {
				t.Errorf("%d %s", code, body)
			}
			code, h, body := do(t, http.MethodPost, url+"/message:stream", `{}`, "A2A-Version", version)
			if code != http.StatusBadRequest || h.Get("Content-Type") != "application/json" || !want && !strings.Contains(body, `"VERSION_NOT_SUPPORTED"`) {
				t.Errorf("a stream: %d %s", code, body)
			}
		})
	}
	if code, _, body := do(t, http.MethodGet, url+"/tasks?A2A-Version=1.0", "", "A2A-Version", ""); code != http.StatusOK {
		t.Errorf("the version in the query: %d %s", code, body)
	}
}

func TestWire(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	message := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	t.Run("JSONRPC-SSE-002 content type", func(t *testing.T) {
		code, _, body := do(t, http.MethodPost, url, `{'jsonrpc': '2.0'}`, "Content-Type", "text/plain")
		if code != http.StatusUnsupportedMediaType || !strings.Contains(body, "-32005") || !strings.Contains(body, "CONTENT_TYPE_NOT_SUPPORTED") {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("HTTP_JSON-STATUS-001 content type", func(t *testing.T) {
		code, _, body := do(t, http.MethodPost, url+"/message:send", message, "Content-Type", "text/plain")
		if code != http.StatusUnsupportedMediaType || !strings.Contains(body, "CONTENT_TYPE_NOT_SUPPORTED") {
			t.Errorf("%d %s", code, body)
		}
		for _, kind := range []string{"application/json; charset=utf-8", "application/a2a+json"} {
			if code, _, body := do(t, http.MethodPost, url+"/message:send", message, "Content-Type", kind); code != http.StatusOK {
				t.Errorf("%s: %d %s", kind, code, body)
			}
		}
	})
	t.Run("CORE-HIST-002 snake_case", func(t *testing.T) {
		result, code, _ := rpc(t, url, "SendMessage", `{"message":{"message_id":"1","role":"ROLE_USER","parts":[{"text":"a","metadata":{"context_id":"mine"}},{"data":{"task_id":"mine"}}]},"configuration":{"history_length":0}}`)
		var got a2apb.SendMessageResponse
		strict(t, result, &got)
		if code != 0 || len(got.GetTask().GetHistory()) != 0 {
			t.Errorf("%s", result)
		}
		id := got.GetTask().GetId()
		result, _, _ = rpc(t, url, "GetTask", `{"id":"`+id+`","history_length":1}`)
		if !strings.Contains(string(result), `"metadata":{"context_id":"mine"}`) || !strings.Contains(string(result), `"data":{"task_id":"mine"}`) {
			t.Errorf("what is the client's own was renamed: %s", result)
		}
		if _, _, body := do(t, http.MethodGet, url+"/tasks/"+id+"?history_length=0", ""); !strings.Contains(body, id) || strings.Contains(body, "history") {
			t.Errorf("%s", body)
		}
	})
	t.Run("with and without a slash", func(t *testing.T) {
		for _, path := range []string{"", "/", "/agents/worker", "/agents/worker/"} {
			if result, code, _ := rpc(t, url+path, "SendMessage", message); code != 0 || !strings.Contains(string(result), "done: hello") {
				t.Errorf("%s: %d %s", path, code, result)
			}
		}
	})
	t.Run("limits", func(t *testing.T) {
		if code, _, body := do(t, http.MethodPost, url, strings.Repeat("x", 5<<20)); code != http.StatusRequestEntityTooLarge {
			t.Errorf("5 MiB: %d %.100s", code, body)
		}
		long := strings.Repeat("x", 300)
		for _, bad := range []string{
			`{"message":{"messageId":"` + long + `","role":"ROLE_USER","parts":[{"text":"a"}]}}`,
			`{"message":{"messageId":"1","contextId":"` + long + `","role":"ROLE_USER","parts":[{"text":"a"}]}}`,
			`{"message":{"messageId":"1","contextId":"a b","role":"ROLE_USER","parts":[{"text":"a"}]}}`,
			`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":" "}]}}`,
			`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"` + strings.Repeat("x", transport.MaxText+1) + `"}]}}`,
		} {
			if _, code, _ := rpc(t, url, "SendMessage", bad); code != -32602 {
				t.Errorf("%.100s: %d", bad, code)
			}
		}
	})
}

// TestErrors compares what is answered to wrong calls, in both bindings.
func TestErrors(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	over := w.send(w.join(sdk.TransportProtocolJSONRPC, url), said("hello")).ID
	m := func(rest string) string { return `{"message":{"messageId":"1","role":"ROLE_USER",` + rest + `}}` }
	for _, test := range []struct {
		name, method, params string
		verb, path           string
		code, status         int
		reason               string
	}{
		{"CORE-GET-002", "GetTask", `{"id":"none"}`, "GET", "/tasks/none", -32001, 404, "TASK_NOT_FOUND"},
		{"CORE-CANCEL-003", "CancelTask", `{"id":"none"}`, "POST", "/tasks/none:cancel", -32001, 404, "TASK_NOT_FOUND"},
		{"CORE-CANCEL-002", "CancelTask", `{"id":"` + string(over) + `"}`, "POST", "/tasks/" + string(over) + ":cancel", -32002, 400, "TASK_NOT_CANCELABLE"},
		{"STREAM-SUB-003", "SubscribeToTask", `{"id":"` + string(over) + `"}`, "GET", "/tasks/" + string(over) + ":subscribe", -32004, 400, "UNSUPPORTED_OPERATION"},
		{"STREAM-SUB-004", "SubscribeToTask", `{"id":"none"}`, "POST", "/tasks/none:subscribe", -32001, 404, "TASK_NOT_FOUND"},
		{"CORE-SEND-002", "SendMessage", m(`"taskId":"` + string(over) + `","parts":[{"text":"more"}]`), "POST", "/message:send", -32004, 400, "UNSUPPORTED_OPERATION"},
		{"CORE-MULTI-004", "SendMessage", m(`"taskId":"none","parts":[{"text":"more"}]`), "POST", "/message:send", -32001, 404, "TASK_NOT_FOUND"},
		{"CORE-MULTI-006", "SendMessage", m(`"taskId":"` + string(over) + `","contextId":"other","parts":[{"text":"more"}]`), "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"a stream to nowhere", "SendStreamingMessage", m(`"taskId":"none","parts":[{"text":"more"}]`), "POST", "/message:stream", -32001, 404, "TASK_NOT_FOUND"},
		{"a stream without parts", "SendStreamingMessage", m(`"parts":[]`), "POST", "/message:stream", -32602, 400, "INVALID_PARAMS"},
		{"CORE-SEND-003", "SendMessage", m(`"parts":[{"text":"a","mediaType":"strange"}]`), "POST", "/message:send", -32005, 400, "CONTENT_TYPE_NOT_SUPPORTED"},
		{"no parts", "SendMessage", m(`"parts":[]`), "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"no message", "SendMessage", `{}`, "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"no id", "SendMessage", `{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]}}`, "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"an agent's role", "SendMessage", `{"message":{"messageId":"1","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`, "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"a file of Cortex's", "SendMessage", m(`"parts":[{"url":"cortex-file:a/b/c"}]`), "POST", "/message:send", -32602, 400, "INVALID_PARAMS"},
		{"a negative history", "GetTask", `{"id":"` + string(over) + `","historyLength":-1}`, "GET", "/tasks/" + string(over) + "?historyLength=-1", -32602, 400, "INVALID_PARAMS"},
		{"CORE-LIST-006", "ListTasks", `{"pageSize":101}`, "GET", "/tasks?pageSize=101", -32602, 400, "INVALID_PARAMS"},
		{"a page of less than nothing", "ListTasks", `{"pageSize":-1}`, "GET", "/tasks?pageSize=-1", -32602, 400, "INVALID_PARAMS"},
		{"a bad cursor", "ListTasks", `{"pageToken":"x"}`, "GET", "/tasks?pageToken=x", -32602, 400, "INVALID_PARAMS"},
		{"a strange state", "ListTasks", `{"status":"TASK_STATE_X"}`, "GET", "/tasks?status=TASK_STATE_X", -32602, 400, "INVALID_PARAMS"},
		{"PUSH-CREATE-002", "CreateTaskPushNotificationConfig", `{"taskId":"` + string(over) + `","url":"http://localhost/"}`, "POST", "/tasks/" + string(over) + "/pushNotificationConfigs", -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
		{"PUSH-LIST-002", "ListTaskPushNotificationConfigs", `{"taskId":"` + string(over) + `"}`, "GET", "/tasks/" + string(over) + "/pushNotificationConfigs", -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
		{"push at once", "SendMessage", `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"taskPushNotificationConfig":{"url":"http://localhost/"}}}`, "POST", "/message:send", -32003, 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, code, reason := rpc(t, url, test.method, test.params); code != test.code || reason != test.reason {
				t.Errorf("JSON-RPC: %d %s, want %d %s", code, reason, test.code, test.reason)
			}
			body := ""
			if test.verb == "POST" {
				body = test.params
			}
			code, h, got := do(t, test.verb, url+test.path, body)
			var said struct {
				Error struct {
					Code    int
					Status  string
					Message string
					Details []struct {
						Type   string `json:"@type"`
						Reason string
						Domain string
					}
				}
			}
			if err := json.Unmarshal([]byte(got), &said); err != nil || code != test.status || said.Error.Code != code || len(said.Error.Details) != 1 ||
				said.Error.Details[0].Reason != test.reason || said.Error.Details[0].Domain != "a2a-protocol.org" || h.Get("Content-Type") != "application/json" {
				t.Errorf("HTTP+JSON: %d %s, want %d %s", code, got, test.status, test.reason)
			}
		})
	}
}

// TestCoreOperations has the SDK's clients call each operation, in both bindings, at Cortex and at an agent.
func TestCoreOperations(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for _, agent := range []string{"", "/agents/worker"} {
			c := w.join(binding, url+agent)
			at := " " + string(binding) + agent
			t.Run("CORE-SEND-001"+at, func(t *testing.T) {
				got := w.send(c, said("hello"))
				if got.Status.State != sdk.TaskStateCompleted || answer(got) != "done: hello" || got.ID == "" || got.ContextID == "" || got.Status.Timestamp == nil {
					t.Errorf("%+v", got)
				}
				if again := w.get(c, got.ID); answer(again) != "done: hello" || again.Status.State != got.Status.State || !again.Status.Timestamp.Equal(*got.Status.Timestamp) {
					t.Errorf("GetTask() = %+v, want %+v", again, got)
				}
				if other := w.send(c, said("hello")); other.ID == got.ID {
					t.Error("the same message id without a context is another task")
				}
			})
			t.Run("CORE-EXEC-MODE returnImmediately"+at, func(t *testing.T) {
				text := fmt.Sprint("slow", at)
				got := w.send(c, atOnce(said(text)))
				if got.Status.State.Terminal() {
					t.Errorf("%+v", got.Status)
				}
				if now := w.get(c, got.ID); now.Status.State != sdk.TaskStateWorking {
					t.Errorf("%+v", now.Status)
				}
				w.until("the agent's work", func() bool { return w.times(w.done, text) == 1 })
				canceled, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: got.ID})
				must(t, err)
				if canceled.Status.State != sdk.TaskStateCanceled {
					t.Errorf("CORE-CANCEL-001: %+v", canceled.Status)
				}
				w.until("the end of the agent's work", func() bool { return w.times(w.stopped, text) == 1 })
				if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: got.ID}); !errors.Is(err, sdk.ErrTaskNotCancelable) {
					t.Errorf("CORE-CANCEL-002: %v", err)
				}
			})
			t.Run("CORE-MULTI-001 input"+at, func(t *testing.T) {
				got := w.send(c, said("paint"))
				if got.Status.State != sdk.TaskStateInputRequired || !strings.Contains(text(got.Status.Message.Parts), "Which colour?") || len(got.Artifacts) > 0 {
					t.Fatalf("%+v", got)
				}
				more := w.send(c, in(said("red"), "", got.ID))
				if more.ID != got.ID || more.ContextID != got.ContextID || more.Status.State != sdk.TaskStateInputRequired {
					t.Fatalf("CORE-MULTI-003: %+v", more)
				}
				end := w.send(c, in(said("yes, dark"), got.ContextID, got.ID))
				if end.ID != got.ID || end.Status.State != sdk.TaskStateCompleted || answer(end) != "done: yes, dark" {
					t.Fatalf("%+v", end)
				}
				var history []string
				for _, m := range end.History {
					history = append(history, text(m.Parts))
				}
				if len(history) != 5 || history[0] != "paint" || history[2] != "red" || history[4] != "yes, dark" || !strings.Contains(history[1], "Which colour?") {
					t.Errorf("CORE-HIST-005: %q", history)
				}
				for n := range 7 {
					now, err := c.GetTask(t.Context(), &sdk.GetTaskRequest{ID: got.ID, HistoryLength: &n})
					must(t, err)
					if len(now.History) != min(n, 5) || n > 0 && text(now.History[len(now.History)-1].Parts) != "yes, dark" {
						t.Errorf("CORE-HIST-006: %d messages of %d", len(now.History), n)
					}
				}
			})
			t.Run("CORE-HIST-003"+at, func(t *testing.T) {
				r := said("hello")
				r.Config = &sdk.SendMessageConfig{HistoryLength: new(int)}
				if got := w.send(c, r); len(got.History) > 0 {
					t.Errorf("%v", got.History)
				}
			})
			t.Run("CORE-MULTI-002 contexts"+at, func(t *testing.T) {
				first := w.send(c, in(said("one"), "my-own", ""))
				second := w.send(c, in(said("two"), "my-own", ""))
				if first.ContextID != "my-own" || second.ContextID != "my-own" || first.ID == second.ID {
					t.Errorf("%s %s, %s %s", first.ContextID, first.ID, second.ContextID, second.ID)
				}
				made := w.send(c, said("three"))
				next := w.send(c, in(said("four"), made.ContextID, ""))
				if next.ContextID != made.ContextID || next.ID == made.ID {
					t.Errorf("%+v, %+v", made, next)
				}
				again := w.send(c, in(said("four"), made.ContextID, ""))
				if again.ID != next.ID {
					t.Error("the same message in a context is sent again: it is the same task")
				}
			})
			t.Run("files"+at, func(t *testing.T) {
				got := w.send(c, said("file"))
				var file *sdk.Part
				for _, a := range got.Artifacts {
					for _, p := range a.Parts {
						if p.Filename != "" {
							file = p
						}
					}
				}
				if file == nil || string(file.Raw()) != "a,b\n1,2\n" || file.MediaType != "text/csv" {
					t.Errorf("%+v", got.Artifacts)
				}
			})
			t.Run("failure"+at, func(t *testing.T) {
				if got := w.send(c, said("fail")); got.Status.State != sdk.TaskStateFailed || len(got.Artifacts) > 0 || got.Status.Message == nil {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// TestConsent has work that needs a yes, and the yes.
func TestConsent(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, agent := range []string{"", "/agents/danger"} {
		c := w.join(sdk.TransportProtocolJSONRPC, url+agent)
		what := "danger " + agent
		got := w.send(c, said(what))
		if got.Status.State != sdk.TaskStateInputRequired || w.times(w.done, what) != 0 {
			t.Fatalf("%+v", got.Status)
		}
		again := w.send(c, in(said("what?"), "", got.ID))
		if again.Status.State != sdk.TaskStateInputRequired {
			t.Fatalf("%+v", again.Status)
		}
		end := w.send(c, in(said("yes"), "", got.ID))
		if end.Status.State != sdk.TaskStateCompleted || w.times(w.done, what) != 1 {
			t.Errorf("%+v, done %d times", end.Status, w.times(w.done, what))
		}
		dropped := w.send(c, said(what+"2"))
		if _, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: dropped.ID}); err != nil {
			t.Error(err)
		}
		if now := w.get(c, dropped.ID); now.Status.State != sdk.TaskStateCanceled || w.times(w.done, what+"2") != 0 {
			t.Errorf("%+v", now.Status)
		}
		elsewhere := w.send(c, said(what+"3"))
		w.send(c, in(said("something else"), elsewhere.ContextID, ""))
		if now := w.get(c, elsewhere.ID); now.Status.State != sdk.TaskStateCanceled {
			t.Errorf("a question that another message closed: %+v", now.Status)
		}
	}
}

// TestStreams has streams of all kinds.
func TestStreams(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for _, agent := range []string{"", "/agents/worker"} {
			c := w.join(binding, url+agent)
			at := " " + string(binding) + agent
			t.Run("STREAM-SEND-001"+at, func(t *testing.T) {
				events := collect(t, c.SendStreamingMessage(t.Context(), said("one two three")))
				first, ok := events[0].(*sdk.Task)
				if !ok || first.ID == "" || first.Status.State.Terminal() {
					t.Fatalf("first: %+v", events[0])
				}
				last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent)
				if !ok || last.Status.State != sdk.TaskStateCompleted {
					t.Fatalf("last: %+v", events[len(events)-1])
				}
				if got := assembled(t, events); got != "done: one two three" {
					t.Errorf("the artifact is %q", got)
				}
			})
			t.Run("STREAM-SEND-003 chunks"+at, func(t *testing.T) {
				var events []sdk.Event
				appended := 0
				for e, err := range c.SendStreamingMessage(t.Context(), said("long")) {
					must(t, err)
					events = append(events, e)
					if u, ok := e.(*sdk.TaskArtifactUpdateEvent); ok && !u.LastChunk {
						if u.Append {
							appended++
						}
						if n := len(assembled(t, events)); n%2000 == 0 {
							w.read <- struct{}{}
						}
					}
				}
				want := "done: " + long
				if got := assembled(t, events); got != want || agent == "" && appended == 0 {
					t.Errorf("%d bytes, want %d; %d pieces", len(got), len(want), appended)
				}
			})
			t.Run("STREAM-SEND-002 ends at a question"+at, func(t *testing.T) {
				events := collect(t, c.SendStreamingMessage(t.Context(), said("paint")))
				last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent)
				if !ok || last.Status.State != sdk.TaskStateInputRequired {
					t.Errorf("last: %+v", events[len(events)-1])
				}
			})
			t.Run("STREAM-SUB-001 STREAM-SUB-002"+at, func(t *testing.T) {
				task := w.send(c, said("paint"))
				seen := make(chan sdk.Event, 64)
				failed := make(chan error, 1)
				go func() {
					defer close(seen)
					for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
						if err != nil {
							failed <- err
							return
						}
						seen <- e
					}
				}()
				if first, ok := (<-seen).(*sdk.Task); !ok || first.ID != task.ID || first.Status.State != sdk.TaskStateInputRequired {
					t.Fatalf("first: %+v", first)
				}
				w.send(c, in(said("blue"), "", task.ID))
				var last sdk.Event
				for e := range seen {
					last = e
				}
				if u, ok := last.(*sdk.TaskStatusUpdateEvent); !ok || u.Status.State != sdk.TaskStateCompleted {
					t.Errorf("last: %+v, %v", last, len(failed))
				}
			})
			t.Run("STREAM-SUB-001 while it works"+at, func(t *testing.T) {
				task := w.send(c, atOnce(said("slow sub"+at)))
				got := make(chan []sdk.Event, 3)
				for range 3 {
					begun := make(chan struct{})
					go func() {
						var all []sdk.Event
						for e, err := range c.SubscribeToTask(t.Context(), &sdk.SubscribeToTaskRequest{ID: task.ID}) {
							if err != nil {
								t.Error(err)
								break
							}
							if all = append(all, e); len(all) == 1 {
								close(begun)
							}
						}
						got <- all
					}()
					<-begun
				}
				w.mu.Lock()
				close(w.gate)
				w.gate = make(chan struct{})
				w.mu.Unlock()
				for range 3 {
					all := <-got
					if _, ok := all[0].(*sdk.Task); !ok {
						t.Errorf("first: %+v", all[0])
					}
					if u, ok := all[len(all)-1].(*sdk.TaskStatusUpdateEvent); !ok || u.Status.State != sdk.TaskStateCompleted {
						t.Errorf("last: %+v", all[len(all)-1])
					}
				}
			})
		}
	}
}

// collect returns the events of a stream.
func collect(t *testing.T, events func(func(sdk.Event, error) bool)) []sdk.Event {
	t.Helper()
	var all []sdk.Event
	for e, err := range events {
		must(t, err)
		all = append(all, e)
	}
	return all
}

// assembled returns the text of the artifact "answer" as a client puts it together.
func assembled(t *testing.T, events []sdk.Event) string {
	t.Helper()
	var got string
	pieces := 0
	for _, e := range events {
		u, ok := e.(*sdk.TaskArtifactUpdateEvent)
		if !ok || u.Artifact.ID != "answer" {
			continue
		}
		if pieces++; u.Append {
			got += text(u.Artifact.Parts)
		} else {
			if !strings.HasPrefix(text(u.Artifact.Parts), got) {
				t.Errorf("%q is replaced by %q", got, text(u.Artifact.Parts))
			}
			got = text(u.Artifact.Parts)
		}
	}
	return got
}

func TestList(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		c := w.join(binding, url)
		list := func(r *sdk.ListTasksRequest) *sdk.ListTasksResponse {
			t.Helper()
			got, err := c.ListTasks(t.Context(), r)
			must(t, err)
			return got
		}
		at := " " + string(binding)
		in0 := "context" + strings.ReplaceAll(at, "+", "-")[1:]
		t.Run("CORE-LIST-001"+at, func(t *testing.T) {
			_, _, body := do(t, http.MethodGet, url+"/tasks?contextId="+in0, "")
			if body != `{"tasks":[],"totalSize":0,"pageSize":50,"nextPageToken":""}`+"\n" {
				t.Errorf("nothing is listed as %s", body)
			}
			result, _, _ := rpc(t, url, "ListTasks", `{"contextId":"`+in0+`"}`)
			if string(result) != strings.TrimSpace(body) {
				t.Errorf("JSON-RPC: %s, HTTP+JSON: %s", result, body)
			}
		})
		oldest := w.send(c, in(atOnce(said("slow list"+at)), in0, ""))
		for i := range 5 {
			w.send(c, in(said(fmt.Sprint("task ", i)), in0, ""))
		}
		asks := w.send(c, in(said("paint"), in0, ""))
		t.Run("CORE-LIST-002 pages"+at, func(t *testing.T) {
			var seen []sdk.TaskID
			r := &sdk.ListTasksRequest{ContextID: in0, PageSize: 2}
			for i := 0; ; i++ {
				page := list(r)
				if page.TotalSize != 7 || page.PageSize != 2 || len(page.Tasks) == 0 {
					t.Fatalf("%+v", page)
				}
				for _, task := range page.Tasks {
					seen = append(seen, task.ID)
					if len(task.Artifacts) > 0 {
						t.Error("CORE-LIST-005: there are artifacts")
					}
				}
				if r.PageToken = page.NextPageToken; r.PageToken == "" {
					break
				}
				if i == 0 { // the newest goes on, the oldest ends, and another begins: the list stays what it was
					w.send(c, in(said("red"), in0, asks.ID))
					_, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: oldest.ID})
					must(t, err)
					w.send(c, in(said("another"), in0+"-else", ""))
				}
			}
			unique := map[sdk.TaskID]bool{}
			for _, id := range seen {
				unique[id] = true
			}
			if len(seen) != 7 || len(unique) != 7 || seen[0] != asks.ID || seen[6] != oldest.ID {
				t.Errorf("%v", seen)
			}
		})
		t.Run("CORE-LIST-003 CORE-LIST-004 filters"+at, func(t *testing.T) {
			if page := list(&sdk.ListTasksRequest{ContextID: in0, Status: sdk.TaskStateInputRequired}); len(page.Tasks) != 1 || page.Tasks[0].ID != asks.ID {
				t.Errorf("%+v", page)
			}
			all := list(&sdk.ListTasksRequest{ContextID: in0, Status: sdk.TaskStateCompleted, IncludeArtifacts: true})
			if len(all.Tasks) != 5 || len(all.Tasks[0].Artifacts) == 0 {
				t.Fatalf("%+v", all)
			}
			for i, task := range all.Tasks[1:] {
				if task.Status.Timestamp.After(*all.Tasks[i].Status.Timestamp) {
					t.Error("the order is not from the newest on")
				}
			}
			since := all.Tasks[2].Status.Timestamp.UTC()
			if page := list(&sdk.ListTasksRequest{ContextID: in0, Status: sdk.TaskStateCompleted, StatusTimestampAfter: &since}); binding == sdk.TransportProtocolJSONRPC && len(page.Tasks) != 2 {
				t.Errorf("after %v: %+v", since, page)
			}
			if page := list(&sdk.ListTasksRequest{PageSize: 100}); len(page.Tasks) < 6 {
				t.Errorf("%+v", page)
			}
		})
	}
}

// TestStrict reads each kind of answer by the rules of ProtoJSON.
func TestStrict(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	message := func(text, more string) string {
		return `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"` + text + `"}],"metadata":{"a":{"b":[1,null]}}` + more + `}}`
	}
	for _, agent := range []string{"", "/agents/worker"} {
		for _, words := range []string{"hello", "file", "paint", "fail"} {
			result, _, _ := rpc(t, url+agent, "SendMessage", message(words, ""))
			var got a2apb.SendMessageResponse
			strict(t, result, &got)
			id := got.GetTask().GetId()
			result, _, _ = rpc(t, url+agent, "GetTask", `{"id":"`+id+`"}`)
			strict(t, result, &a2apb.Task{})
			_, _, body := do(t, http.MethodGet, url+agent+"/tasks/"+id, "")
			strict(t, []byte(body), &a2apb.Task{})
			if strings.TrimSpace(body) != string(result) {
				t.Errorf("JSON-RPC: %s\nHTTP+JSON: %s", result, body)
			}
			_, _, body = do(t, http.MethodPost, url+agent+"/message:stream", message(words, ""))
			events := 0
			for line := range strings.Lines(body) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					strict(t, []byte(data), &a2apb.StreamResponse{})
					events++
				}
			}
			if events < 2 {
				t.Errorf("%s", body)
			}
		}
		result, _, _ := rpc(t, url+agent, "ListTasks", `{"includeArtifacts":true}`)
		strict(t, result, &a2apb.ListTasksResponse{})
		result, _, _ = rpc(t, url+agent, "GetExtendedAgentCard", `{}`)
		strict(t, result, &a2apb.AgentCard{})
	}
}
