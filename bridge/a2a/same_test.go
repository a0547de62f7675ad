package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// thrice makes the same call in the three bindings, and compares what is answered, by the rules of ProtoJSON.
type thrice struct {
	t      *testing.T
	url    string // of the agent
	tenant string
	pb     a2apb.A2AServiceClient
}

func (w *world) thrice(t *testing.T, base, tenant string) *thrice {
	t.Helper()
	cc, err := grpc.NewClient(w.rpc[base], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = cc.Close() })
	x := &thrice{t, base, tenant, a2apb.NewA2AServiceClient(cc)}
	if tenant != "" {
		x.url += "/agents/" + tenant
	}
	return x
}

func (x *thrice) ctx() context.Context {
	return metadata.AppendToOutgoingContext(x.t.Context(), "a2a-version", "1.0", "a2a-extensions", hitl)
}

// same makes a call in JSON-RPC and HTTP+JSON and compares the answers with that of gRPC. into is an empty answer.
func (x *thrice) same(what, method, params, verb, path string, into, pb proto.Message, err error) {
	x.t.Helper()
	must(x.t, err)
	result, code, reason := rpc(x.t, x.url, method, params, "A2A-Extensions", hitl)
	if code != 0 {
		x.t.Fatalf("%s: %d %s", what, code, reason)
	}
	body := ""
	if verb == http.MethodPost {
		body = params
	}
	status, _, rest := do(x.t, verb, x.url+path, body, "A2A-Extensions", hitl)
	if status != http.StatusOK {
		x.t.Fatalf("%s: %d %s", what, status, rest)
	}
	for binding, b := range map[string][]byte{"JSON-RPC": result, "HTTP+JSON": []byte(rest)} {
		got := proto.Clone(into)
		strict(x.t, b, got)
		if !proto.Equal(got, pb) {
			x.t.Errorf("%s, %s: %s\ngRPC: %s", what, binding, b, protojson.Format(pb))
		}
	}
}

// TestSame has each kind of task, and compares all that can be read of it in the three bindings.
func TestSame(t *testing.T) {
	w := newWorld(t, false)
	base := w.serve(w.server(), nil)
	for _, tenant := range []string{"", "worker", "danger"} {
		x := w.thrice(t, base, tenant)
		conv := "same-" + tenant
		for _, words := range []string{"hello", "file", "paint", "fail", "danger", "slow"} {
			if tenant == "danger" && words != "danger" {
				continue
			}
			t.Run(tenant+" "+words, func(t *testing.T) {
				x.t = t
				in := conv + "-" + words
				message := `{"messageId":"same-` + words + `","contextId":"` + in + `","role":"ROLE_USER","parts":[{"text":"` + words + `"},{"data":{"n":1.5,"list":[null,true]}},{"raw":"AAEC","filename":"a.bin","mediaType":"application/octet-stream"}],"metadata":{"k":{"v":[1,"x"]}}}`
				at := `"configuration":{"returnImmediately":true}`
				m := new(a2apb.SendMessageRequest)
				must(t, protojson.Unmarshal([]byte(`{"message":`+message+`}`), m))
				if words == "slow" {
					must(t, protojson.Unmarshal([]byte(`{"message":`+message+`,`+at+`}`), m))
				}
				m.Tenant = tenant
				params := `{"message":` + message + `}`
				if words == "slow" {
					params = `{"message":` + message + `,` + at + `}`
				}
				first, err := x.pb.SendMessage(x.ctx(), m)
				must(t, err)
				id := first.GetTask().GetId()
				// The message names its context: sent again, it is the same task.
				again, err := x.pb.SendMessage(x.ctx(), m)
				x.same("SendMessage", "SendMessage", params, http.MethodPost, "/message:send", &a2apb.SendMessageResponse{}, again, err)

				got, err := x.pb.GetTask(x.ctx(), &a2apb.GetTaskRequest{Tenant: tenant, Id: id})
				x.same("GetTask", "GetTask", `{"id":"`+id+`"}`, http.MethodGet, "/tasks/"+id, &a2apb.Task{}, got, err)
				none := int32(0)
				got, err = x.pb.GetTask(x.ctx(), &a2apb.GetTaskRequest{Tenant: tenant, Id: id, HistoryLength: &none})
				x.same("GetTask without history", "GetTask", `{"id":"`+id+`","historyLength":0}`, http.MethodGet, "/tasks/"+id+"?historyLength=0", &a2apb.Task{}, got, err)
				whole := true
				list, err := x.pb.ListTasks(x.ctx(), &a2apb.ListTasksRequest{Tenant: tenant, ContextId: in, IncludeArtifacts: &whole})
				x.same("ListTasks", "ListTasks", `{"contextId":"`+in+`","includeArtifacts":true}`, http.MethodGet, "/tasks?includeArtifacts=true&contextId="+in, &a2apb.ListTasksResponse{}, list, err)
				list, err = x.pb.ListTasks(x.ctx(), &a2apb.ListTasksRequest{Tenant: tenant, ContextId: in})
				x.same("ListTasks without artifacts", "ListTasks", `{"contextId":"`+in+`"}`, http.MethodGet, "/tasks?contextId="+in, &a2apb.ListTasksResponse{}, list, err)

				state := got.GetStatus().GetState()
				if state != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && state != a2apb.TaskState_TASK_STATE_WORKING {
					return
				}
				// Each of them can be followed, and canceled. A stream begins with the same task.
				ctx, leave := context.WithCancel(x.ctx())
				stream, err := x.pb.SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Tenant: tenant, Id: id})
				must(t, err)
				begins, err := stream.Recv()
				must(t, err)
				leave()
				for _, raw := range []string{firstEvent(t, http.MethodPost, x.url, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"`+id+`"}}`), firstEvent(t, http.MethodGet, x.url+"/tasks/"+id+":subscribe", "")} {
					var of a2apb.StreamResponse
					strict(t, []byte(raw), &of)
					if !proto.Equal(&of, begins) {
						t.Errorf("%s\ngRPC: %s", raw, protojson.Format(begins))
					}
				}
				result, code, reason := rpc(t, x.url, "CancelTask", `{"id":"`+id+`"}`)
				if code != 0 {
					t.Fatalf("%d %s", code, reason)
				}
				var end a2apb.Task
				strict(t, result, &end)
				got, err = x.pb.GetTask(x.ctx(), &a2apb.GetTaskRequest{Tenant: tenant, Id: id})
				x.same("GetTask when it is canceled", "GetTask", `{"id":"`+id+`"}`, http.MethodGet, "/tasks/"+id, &a2apb.Task{}, got, err)
				if !proto.Equal(&end, got) || end.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_CANCELED {
					t.Errorf("CancelTask: %s\nGetTask: %s", result, protojson.Format(got))
				}
			})
		}
		x.t = t
		card, err := x.pb.GetExtendedAgentCard(x.ctx(), &a2apb.GetExtendedAgentCardRequest{Tenant: tenant})
		must(t, err)
		_, _, body := do(t, http.MethodGet, x.url+"/extendedAgentCard", "")
		var same a2apb.AgentCard
		strict(t, []byte(body), &same)
		card.SupportedInterfaces = same.SupportedInterfaces              // a client by gRPC is told of gRPC
		if card.GetDocumentationUrl() == "" && card.GetIconUrl() == "" { // which the SDK writes there
			card.DocumentationUrl, card.IconUrl = nil, nil
		}
		if can := card.GetCapabilities(); !can.GetPushNotifications() {
			can.PushNotifications = same.GetCapabilities().PushNotifications
		}
		x.same("GetExtendedAgentCard", "GetExtendedAgentCard", `{}`, http.MethodGet, "/extendedAgentCard", &a2apb.AgentCard{}, card, nil)
	}
}

// firstEvent returns the first event of a stream, without the envelope of JSON-RPC, and leaves.
func firstEvent(t *testing.T, method, url, body string) string {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	must(t, err)
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("A2A-Extensions", hitl)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	defer res.Body.Close()
	var all strings.Builder
	for b := make([]byte, 4096); !strings.Contains(all.String(), "\n\n"); {
		n, err := res.Body.Read(b)
		all.Write(b[:n])
		if err != nil && !strings.Contains(all.String(), "\n\n") {
			t.Fatalf("%v: %s", err, all.String())
		}
	}
	data := dataOf(all.String())[0]
	var said struct{ Result json.RawMessage }
	if body != "" {
		must(t, json.Unmarshal([]byte(data), &said))
		return string(said.Result)
	}
	return data
}

// TestExtendedCard has the SDK's clients get the card with all skills.
func TestExtendedCard(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	for _, binding := range bindings {
		for agent, skill := range map[string]string{"": "worker/do", "/agents/worker": "do"} {
			card, err := w.join(binding, url+agent).GetExtendedAgentCard(t.Context(), &sdk.GetExtendedAgentCardRequest{})
			must(t, err)
			if !slices.ContainsFunc(card.Skills, func(s sdk.AgentSkill) bool { return s.ID == skill }) {
				t.Errorf("%s%s: %+v", binding, agent, card.Skills)
			}
			// Each address on it leads to the agent.
			for _, at := range card.SupportedInterfaces {
				if at.ProtocolBinding == sdk.TransportProtocolGRPC && (at.URL != w.rpc[url] || "/agents/"+at.Tenant != agent && at.Tenant+agent != "") ||
					at.ProtocolBinding != sdk.TransportProtocolGRPC && at.URL != url+agent {
					t.Errorf("%s%s: %+v", binding, agent, at)
				}
			}
			if len(card.SupportedInterfaces) == 0 {
				t.Errorf("%s%s: it says of no address", binding, agent)
			}
		}
	}
}

// TestSameErrors has the SDK's clients make calls that are wrong, in the three bindings: they get the same error, of the protocol's.
func TestSameErrors(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.server(), nil)
	ctx := t.Context()
	words := map[string]string{}
	for _, binding := range bindings {
		c := w.join(binding, url)
		over := w.send(c, saying("hello")).ID
		paint := w.send(c, saying("paint"))
		asks := paint.ID
		bad := func(change func(m *sdk.Message)) func(c *a2aclient.Client) error {
			return func(c *a2aclient.Client) error {
				r := saying("hello")
				change(r.Message)
				_, err := c.SendMessage(ctx, r)
				for _, streamed := range c.SendStreamingMessage(ctx, r) {
					if !errors.Is(streamed, errors.Unwrap(err)) && (streamed == nil || streamed.Error() != err.Error()) {
						t.Errorf("a stream: %v, want %v", streamed, err)
					}
				}
				return err
			}
		}
		n := -1
		for name, test := range map[string]struct {
			call func(c *a2aclient.Client) error
			want error
		}{
			"GetTask": {func(c *a2aclient.Client) error { _, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: "none"}); return err }, sdk.ErrTaskNotFound},
			"a history": {func(c *a2aclient.Client) error {
				_, err := c.GetTask(ctx, &sdk.GetTaskRequest{ID: over, HistoryLength: &n})
				return err
			}, sdk.ErrInvalidParams},
			"CancelTask": {func(c *a2aclient.Client) error {
				_, err := c.CancelTask(ctx, &sdk.CancelTaskRequest{ID: "none"})
				return err
			}, sdk.ErrTaskNotFound},
			"CancelTask, over": {func(c *a2aclient.Client) error {
				_, err := c.CancelTask(ctx, &sdk.CancelTaskRequest{ID: over})
				return err
			}, sdk.ErrTaskNotCancelable},
			"a page": {func(c *a2aclient.Client) error {
				_, err := c.ListTasks(ctx, &sdk.ListTasksRequest{PageSize: 101})
				return err
			}, sdk.ErrInvalidParams},
			"a token": {func(c *a2aclient.Client) error {
				_, err := c.ListTasks(ctx, &sdk.ListTasksRequest{PageToken: "x"})
				return err
			}, sdk.ErrInvalidParams},
			"no such task":      {bad(func(m *sdk.Message) { m.TaskID = "none" }), sdk.ErrTaskNotFound},
			"to what is over":   {bad(func(m *sdk.Message) { m.TaskID = over }), sdk.ErrUnsupportedOperation},
			"another context":   {bad(func(m *sdk.Message) { m.TaskID, m.ContextID = asks, "other" }), sdk.ErrInvalidParams},
			"a media type":      {bad(func(m *sdk.Message) { m.Parts[0].MediaType = "strange" }), sdk.ErrUnsupportedContentType},
			"an agent's role":   {bad(func(m *sdk.Message) { m.Role = sdk.MessageRoleAgent }), sdk.ErrInvalidParams},
			"no id":             {bad(func(m *sdk.Message) { m.ID = "" }), sdk.ErrInvalidParams},
			"no parts":          {bad(func(m *sdk.Message) { m.Parts = sdk.ContentParts{} }), sdk.ErrInvalidParams},
			"Cortex's own file": {bad(func(m *sdk.Message) { m.Parts = sdk.ContentParts{{Content: sdk.URL("cortex-file:a/b/c")}} }), sdk.ErrInvalidParams},
			"SubscribeToTask": {func(c *a2aclient.Client) (err error) {
				for _, err = range c.SubscribeToTask(ctx, &sdk.SubscribeToTaskRequest{ID: over}) {
				}
				return err
			}, sdk.ErrUnsupportedOperation},
		} {
			if name == "SubscribeToTask" && binding == sdk.TransportProtocolJSONRPC {
				continue // the SDK's client does not show an error that comes in the place of a stream
			}
			err := test.call(c)
			if !errors.Is(err, test.want) {
				t.Errorf("%s, %s: %v, want %v", binding, name, err, test.want)
				continue
			}
			said := strings.NewReplacer(string(over), "OVER", string(asks), "ASKS", paint.ContextID, "CONTEXT").Replace(err.Error())
			if name == "no id" && binding == sdk.TransportProtocolGRPC {
				continue // the SDK says it in its own words
			}
			if before, ok := words[name]; ok && !strings.HasSuffix(said, before) && !strings.HasSuffix(before, said) {
				t.Errorf("%s, %s: %q, in another binding %q", binding, name, said, before)
			}
			words[name] = said
		}
	}
}
