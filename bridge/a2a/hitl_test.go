package a2a_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/transport"
)

const hitl = a2a.HumanInTheLoop

// putQuestion returns what a status asks in the form of the extension; nil if nothing.
func putQuestion(t *testing.T, s sdk.TaskStatus) map[string]any {
	t.Helper()
	if s.Message == nil || len(s.Message.Extensions) == 0 {
		return nil
	}
	said, _ := s.Message.Metadata[hitl].(map[string]any)
	if len(s.Message.Extensions) != 1 || s.Message.Extensions[0] != hitl || said == nil {
		t.Fatalf("%+v", s.Message)
	}
	return said
}

// items returns a list within what an extension says.
func items(t *testing.T, said map[string]any, key string) []map[string]any {
	t.Helper()
	all, _ := said[key].([]any)
	var out []map[string]any
	for _, of := range all {
		m, ok := of.(map[string]any)
		if !ok {
			t.Fatalf("%s: %+v", key, said)
		}
		out = append(out, m)
	}
	return out
}

// fields are those of a JSON object.
type fields = map[string]any

// responds returns a reply in the form of the extension.
func responds(id sdk.TaskID, said any) *sdk.SendMessageRequest {
	r := in(saying("for people to read"), "", id)
	r.Message.Extensions = []string{hitl}
	r.Message.Metadata = fields{hitl: said}
	return r
}

// saying returns a message with a text and an id of its own.
func saying(text string) *sdk.SendMessageRequest {
	r := said(text)
	r.Message.ID = sdk.NewMessageID()
	return r
}

func approvals(all ...any) fields {
	return fields{"type": "tool_approval_response", "approvals": all}
}

func approval(id any, yes bool) fields { return fields{"id": id, "approved": yes} }

func answers(id any, all ...any) fields {
	return fields{"type": "ask_user_response", "id": id, "answers": all}
}

func reply(texts ...any) fields { return fields{"answer": texts} }

// refusedReplies sends replies that do not fit, and expects the question to stay as it is.
func refusedReplies(t *testing.T, w *world, c *a2aclient.Client, task *sdk.Task, bad map[string]any) {
	t.Helper()
	for name, said := range bad {
		_, err := c.SendMessage(t.Context(), responds(task.ID, said))
		if !errors.Is(err, sdk.ErrInvalidParams) || !strings.Contains(err.Error(), hitl) {
			t.Errorf("%s: %v", name, err)
		}
		for _, err := range c.SendStreamingMessage(t.Context(), responds(task.ID, said)) {
			if !errors.Is(err, sdk.ErrInvalidParams) {
				t.Errorf("%s, as a stream: %v", name, err)
			}
		}
	}
	now := w.get(c, task.ID)
	if now.Status.State != sdk.TaskStateInputRequired || len(now.History) != len(task.History) || text(now.Status.Message.Parts) != text(task.Status.Message.Parts) {
		t.Errorf("%+v", now)
	}
}

// TestHumanInTheLoop has clients that know the extension say yes and no.
func TestHumanInTheLoop(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for agent, tool := range map[string]string{"": "danger/do", "/agents/danger": "danger"} {
			t.Run("consent "+string(binding)+agent, func(t *testing.T) {
				knows := w.join(binding, url+agent, "A2A-Extensions", "urn:other, "+hitl)
				plain := w.join(binding, url+agent, "A2A-Extensions", "urn:other")
				what := "danger " + string(binding) + agent
				task := w.send(knows, saying(what))
				said := putQuestion(t, task.Status)
				tools := items(t, said, "tools")
				if task.Status.State != sdk.TaskStateInputRequired || said["type"] != "tool_approval_request" || said["hint"] != text(task.Status.Message.Parts) || len(tools) != 1 ||
					tools[0]["name"] != tool || tools[0]["call_id"] == "" || tools[0]["args"].(map[string]any)["task"] != what {
					t.Fatalf("%+v", said)
				}
				id := tools[0]["id"]
				for name, status := range map[string]sdk.TaskStatus{"GetTask": w.get(knows, task.ID).Status, "a stream": lastStatus(t, knows, what+" by stream"), "ListTasks": listedStatus(t, knows, task), "SubscribeToTask": snapshot(t, knows, task.ID)} {
					if q := putQuestion(t, status); q == nil || q["type"] != "tool_approval_request" || name != "a stream" && items(t, q, "tools")[0]["id"] != id {
						t.Errorf("%s: %+v", name, status)
					}
				}
				for name, status := range map[string]sdk.TaskStatus{"SendMessage": w.send(plain, saying(what+" without")).Status, "GetTask": w.get(plain, task.ID).Status, "a stream": lastStatus(t, plain, what+" by stream without"), "ListTasks": listedStatus(t, plain, task), "SubscribeToTask": snapshot(t, plain, task.ID)} {
					if putQuestion(t, status) != nil || len(status.Message.Metadata) > 0 {
						t.Errorf("%s, without the extension: %+v", name, status.Message)
					}
				}
				refusedReplies(t, w, knows, task, map[string]any{
					"a text": "yes", "a list": []any{"yes"}, "nothing in it": fields{}, "another type": fields{"type": "x"}, "a request": fields{"type": "tool_approval_request", "approvals": []any{approval(id, true)}}, "the wrong type": answers(id, reply("yes")),
					"no approvals": approvals(), "another id": approvals(approval("x", true)), "no id": approvals(fields{"approved": true}), "no decision": approvals(fields{"id": id}),
					"a word for a decision": approvals(fields{"id": id, "approved": "yes"}), "twice": approvals(approval(id, true), approval(id, true)), "one too many": approvals(approval(id, true), approval("x", true)),
				})
				if _, err := knows.SendMessage(t.Context(), responds("", approvals(approval(id, true)))); !errors.Is(err, sdk.ErrInvalidParams) {
					t.Errorf("without a task: %v", err)
				}
				if n := w.times(w.done, what); n != 0 {
					t.Fatalf("done %d times without a yes", n)
				}
				yes := responds(task.ID, approvals(approval(id, true)))
				for range 2 { // sent again, it is the same
					if end := w.send(knows, yes); end.Status.State != sdk.TaskStateCompleted || answer(end) != "done: "+what || w.times(w.done, what) != 1 {
						t.Fatalf("%+v, done %d times", end, w.times(w.done, what))
					}
				}
				other := *yes.Message
				other.Metadata = fields{hitl: approvals(approval(id, false))}
				if _, err := knows.SendMessage(t.Context(), &sdk.SendMessageRequest{Message: &other}); !errors.Is(err, sdk.ErrUnsupportedOperation) {
					t.Errorf("another decision is not the same message again: %v", err)
				}
				if to := w.repliedTo(task.ContextID); to == "" {
					t.Error("the yes counts for any question")
				}
				end := w.get(plain, task.ID)
				if m := end.History[len(end.History)-1]; len(end.History) != 3 || m.ID != yes.Message.ID || text(m.Parts) != "yes" || len(m.Extensions) != 1 || m.Metadata[hitl] == nil {
					t.Errorf("%+v", m)
				}
				if _, err := knows.SendMessage(t.Context(), responds(task.ID, approvals(approval(id, false)))); !errors.Is(err, sdk.ErrUnsupportedOperation) {
					t.Errorf("a reply to what is over: %v", err)
				}

				worker := w.join(binding, url+strings.Replace(agent, "danger", "worker", 1), "A2A-Extensions", hitl)
				working := w.send(worker, atOnce(saying("slow "+what)))
				if _, err := worker.SendMessage(t.Context(), responds(working.ID, approvals(approval(id, true)))); !errors.Is(err, sdk.ErrUnsupportedOperation) {
					t.Errorf("a reply to what works: %v", err)
				}
				_, err := worker.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: working.ID})
				must(t, err)

				what += " no"
				task = w.send(knows, saying(what))
				no := approvals(fields{"id": items(t, putQuestion(t, task.Status), "tools")[0]["id"], "approved": false, "rejection_reason": "not today"})
				if end := w.send(knows, responds(task.ID, no)); !end.Status.State.Terminal() || w.times(w.done, what) != 0 || putQuestion(t, end.Status) != nil {
					t.Errorf("%+v, done %d times", end, w.times(w.done, what))
				}
				if agent != "" { // with the skill that the client names
					of := saying(what + " of a skill")
					of.Message.Metadata = fields{transport.MetaTaskType: "do"}
					if tools := items(t, putQuestion(t, w.send(knows, of).Status), "tools"); len(tools) != 1 || tools[0]["name"] != "do" {
						t.Errorf("%+v", tools)
					}
				}
				// A reply that names the extension is one without the header, too: the decision is not lost. Words do as well.
				task = w.send(knows, saying(what+" a"))
				if end := w.send(plain, responds(task.ID, approvals(approval(items(t, putQuestion(t, task.Status), "tools")[0]["id"], true)))); end.Status.State != sdk.TaskStateCompleted || w.times(w.done, what+" a") != 1 {
					t.Errorf("%+v", end)
				}
				task = w.send(knows, saying(what+" b"))
				end = w.send(knows, in(saying("yes"), "", task.ID))
				if w.repliedTo(task.ContextID) == "" {
					t.Error("a yes in words counts for any question")
				}
				if end.Status.State != sdk.TaskStateCompleted || w.times(w.done, what+" b") != 1 {
					t.Errorf("%+v", end)
				}
			})
		}
		for _, agent := range []string{"", "/agents/worker"} {
			t.Run("a question "+string(binding)+agent, func(t *testing.T) {
				c := w.join(binding, url+agent, "A2A-Extensions", hitl)
				task := w.send(c, saying("paint"))
				said := putQuestion(t, task.Status)
				questions := items(t, said, "questions")
				if said["type"] != "ask_user_request" || len(questions) != 1 || !strings.Contains(questions[0]["question"].(string), "Which colour?") || questions[0]["multiple"] != false {
					t.Fatalf("%+v", said)
				}
				id := said["id"]
				bad := map[string]any{
					"another id": answers("x", reply("red")), "no id": answers(nil, reply("red")), "no answers": answers(id), "two answers": answers(id, reply("red"), reply("blue")), "nothing said": answers(id, reply()),
					"space": answers(id, reply(" ")), "a number": answers(id, reply(1)), "text for answers": fields{"type": "ask_user_response", "id": id, "answers": "red"}, "the wrong type": approvals(approval(id, true)),
					"too many texts": answers(id, fields{"answer": many("x", 100)}),
				}
				refusedReplies(t, w, c, task, bad)
				again := w.send(c, responds(task.ID, answers(id, reply("red"))))
				next := putQuestion(t, again.Status)
				if again.ID != task.ID || again.Status.State != sdk.TaskStateInputRequired || next["type"] != "ask_user_request" || next["id"] == id {
					t.Fatalf("%+v", again)
				}
				refusedReplies(t, w, c, again, map[string]any{"the id of the question before": answers(id, reply("yes"))})
				end := w.send(c, responds(task.ID, answers(next["id"], reply("yes", "dark"))))
				if end.Status.State != sdk.TaskStateCompleted || answer(end) != "done: yes, dark" || putQuestion(t, end.Status) != nil {
					t.Errorf("%+v", end)
				}
			})
		}
	}
}

// TestHumanInTheLoopOfSeveral has several tasks wait at once.
func TestHumanInTheLoopOfSeveral(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			c := w.join(binding, url, "A2A-Extensions", hitl)
			what := "danger " + string(binding) + " twice"
			task := w.send(c, saying(what))
			tools := items(t, putQuestion(t, task.Status), "tools")
			if len(tools) != 2 || tools[0]["id"] == tools[1]["id"] {
				t.Fatalf("%+v", tools)
			}
			if in, _ := tools[1]["args"].(map[string]any)["input"].(map[string]any); in["n"] != 2.0 || in["id"] != "12345678901234567890" {
				t.Errorf("%+v", tools[1])
			}
			a, b := tools[0]["id"], tools[1]["id"]
			refusedReplies(t, w, c, task, map[string]any{"one of two": approvals(approval(a, true)), "only one approved": approvals(approval(a, true), approval(b, false)), "decided twice": approvals(approval(a, true), approval(b, true), approval(a, false))})
			if end := w.send(c, responds(task.ID, approvals(approval(b, true), approval(a, true)))); end.Status.State != sdk.TaskStateCompleted || w.times(w.done, what+" 1") != 1 || w.times(w.done, what+" 2") != 1 {
				t.Errorf("%+v", end)
			}
			task = w.send(c, saying("paint twice"))
			said := putQuestion(t, task.Status)
			questions := items(t, said, "questions")
			if len(questions) != 2 || questions[0]["question"] != "worker: Which colour?" {
				t.Fatalf("%+v", said)
			}
			refusedReplies(t, w, c, task, map[string]any{"one answer to two": answers(said["id"], reply("blue"))})
			more := w.send(c, responds(task.ID, answers(said["id"], reply("blue"), reply("green"))))
			if n := w.times(w.done, "worker: blue\nworker: green"); n == 0 {
				t.Errorf("the answers have not come: %+v", more)
			}
		})
	}
}

// TestHumanInTheLoopIsNamed looks at the cards, and at what the server says it has activated.
func TestHumanInTheLoopIsNamed(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, path := range []string{"/.well-known/agent-card.json", "/agents/worker/.well-known/agent-card.json", "/extendedAgentCard", "/agents/danger/extendedAgentCard"} {
		var card a2apb.AgentCard
		_, _, body := do(t, http.MethodGet, url+path, "")
		strict(t, []byte(body), &card)
		found := 0
		for _, e := range card.GetCapabilities().GetExtensions() {
			if e.GetUri() == hitl && !e.GetRequired() && e.GetDescription() != "" {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %s", path, body)
		}
	}
	message := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"danger"}]}}`
	for said, want := range map[string]string{"": "", "urn:other": "", hitl + "x": "", hitl: hitl, "urn:other," + hitl: hitl} {
		_, rpc, _ := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+message+`}`, "A2A-Extensions", said)
		_, rest, _ := do(t, http.MethodPost, url+"/message:send", message, "A2A-Extensions", said)
		_, stream, body := do(t, http.MethodPost, url+"/message:stream", message, "A2A-Extensions", said)
		if rpc.Get("A2A-Extensions") != want || rest.Get("A2A-Extensions") != want || stream.Get("A2A-Extensions") != want || strings.Contains(body, `"extensions"`) != (want != "") {
			t.Errorf("%q: JSON-RPC %q, HTTP+JSON %q, a stream %q", said, rpc.Get("A2A-Extensions"), rest.Get("A2A-Extensions"), stream.Get("A2A-Extensions"))
		}
		cc, err := grpc.NewClient(w.rpc[url], grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0", "a2a-extensions", said)
		var trailer metadata.MD
		_, err = a2apb.NewA2AServiceClient(cc).ListTasks(ctx, &a2apb.ListTasksRequest{}, grpc.Trailer(&trailer))
		must(t, err)
		if got := strings.Join(trailer.Get("a2a-extensions"), ","); got != want {
			t.Errorf("gRPC: %q is answered by %q", said, got)
		}
		trailer = nil
		_, err = a2apb.NewA2AServiceClient(cc).GetExtendedAgentCard(ctx, &a2apb.GetExtendedAgentCardRequest{}, grpc.Trailer(&trailer))
		must(t, err)
		if got := strings.Join(trailer.Get("a2a-extensions"), ","); got != want {
			t.Errorf("gRPC, the extended card: %q is answered by %q", said, got)
		}
		must(t, cc.Close())
	}
}

// repliedTo returns the turn that the last message of a conversation replies to.
func (w *world) repliedTo(contextID string) string {
	to := ""
	for e, err := range w.store.Load(w.t.Context(), "", contextID, 0) {
		must(w.t, err)
		if m, ok := transport.Request(e.Cause); ok {
			to = transport.MetaString(m, transport.MetaReplyTo)
		}
	}
	return to
}

func many(text string, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = text
	}
	return all
}

// lastStatus returns the status at the end of a stream.
func lastStatus(t *testing.T, c *a2aclient.Client, text string) sdk.TaskStatus {
	t.Helper()
	events := collect(t, c.SendStreamingMessage(t.Context(), saying(text)))
	last, ok := events[len(events)-1].(*sdk.TaskStatusUpdateEvent)
	if !ok {
		t.Fatalf("%+v", events)
	}
	return last.Status
}

// listedStatus returns the status of a task in a list.
func listedStatus(t *testing.T, c *a2aclient.Client, task *sdk.Task) sdk.TaskStatus {
	t.Helper()
	got, err := c.ListTasks(t.Context(), &sdk.ListTasksRequest{ContextID: task.ContextID})
	must(t, err)
	if len(got.Tasks) != 1 {
		t.Fatalf("%+v", got)
	}
	return got.Tasks[0].Status
}

// snapshot returns the status with which a subscription begins.
func snapshot(t *testing.T, c *a2aclient.Client, id sdk.TaskID) sdk.TaskStatus {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for e, err := range c.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: id}) {
		must(t, err)
		return e.(*sdk.Task).Status
	}
	t.Fatal("no event")
	return sdk.TaskStatus{}
}
