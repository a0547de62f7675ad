package a2a_test

import (
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
)

// TestOld has a client of A2A 0.3 do what it can, beside one of 1.0 at the same address.
func TestOld(t *testing.T) {
	w := newWorld(t, false)
	url := w.serve(w.doorWith(func(c *a2a.Config) { c.Old = true }), nil)
	for _, agent := range []string{"", "/agents/worker"} {
		for _, binding := range bindings[:2] {
			t.Run("VER-SERVER-003 "+string(binding)+agent, func(t *testing.T) {
				card, err := (&agentcard.Resolver{CardParser: a2av0.NewAgentCardParser()}).Resolve(t.Context(), url+agent)
				must(t, err)
				var old []*sdk.AgentInterface
				for _, i := range card.SupportedInterfaces {
					if i.ProtocolVersion == a2av0.Version && i.ProtocolBinding == binding {
						old = append(old, i)
					}
				}
				if len(old) == 0 {
					t.Fatalf("the card has no interface of 0.3: %+v", card.SupportedInterfaces)
				}
				card.SupportedInterfaces = old[:1]
				c, err := a2aclient.NewFromCard(t.Context(), card,
					a2aclient.WithCompatTransport(a2av0.Version, sdk.TransportProtocolJSONRPC, a2av0.NewJSONRPCTransportFactory(a2av0.JSONRPCTransportConfig{})),
					a2aclient.WithCompatTransport(a2av0.Version, sdk.TransportProtocolHTTPJSON, a2av0.NewRESTTransportFactory(a2av0.RESTTransportConfig{})))
				must(t, err)
				got := w.send(c, said("hello"))
				if got.Status.State != sdk.TaskStateCompleted || answer(got) != "done: hello" {
					t.Errorf("%+v", got)
				}
				if now := w.get(c, got.ID); answer(now) != "done: hello" {
					t.Errorf("%+v", now)
				}
				if now := w.get(w.join(binding, url+agent), got.ID); answer(now) != "done: hello" {
					t.Errorf("by 1.0: %+v", now)
				}
				events := collect(t, c.SendStreamingMessage(t.Context(), said("one two")))
				if assembled(t, events) != "done: one two" {
					t.Errorf("%+v", events)
				}
				asks := w.send(c, said("paint"))
				canceled, err := c.CancelTask(t.Context(), &sdk.CancelTaskRequest{ID: asks.ID})
				if err != nil || canceled.Status.State != sdk.TaskStateCanceled {
					t.Errorf("%+v, %v", canceled, err)
				}
			})
		}
	}
	message := `{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`
	if result, code, _ := rpc(t, url, "SendMessage", message, "A2A-Version", ""); code != 0 || !strings.Contains(string(result), "done: hello") {
		t.Errorf("1.0 without a version: %d %s", code, result)
	}
	if _, code, _ := rpc(t, url, "SendMessage", message, "A2A-Version", "99.0"); code != -32009 {
		t.Errorf("another version: %d", code)
	}
	if code, _, body := do(t, http.MethodGet, url+"/tasks", "", "A2A-Version", ""); code != http.StatusBadRequest || !strings.Contains(body, "VERSION_NOT_SUPPORTED") {
		t.Errorf("HTTP+JSON without a version: %d %s", code, body)
	}
	plain := w.serve(w.server(), nil)
	if _, _, body := do(t, http.MethodPost, plain, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`, "A2A-Version", ""); strings.Contains(body, "result") {
		t.Errorf("without being asked to: %s", body)
	}
}
