package a2a_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/emptypb"
)

// TestBindingsAgree makes calls by JSON-RPC and HTTP+JSON of which the SDK's transports make something else than the protocol does, or than each other.
func TestBindingsAgree(t *testing.T) {
	w := newWorld(t, true)
	url, _ := w.pushing(nil, plain)
	message := func(part string) string {
		return `{"message":{"messageId":"1","role":"ROLE_USER","parts":[` + part + `]}}`
	}
	result, _, _ := rpc(t, url, "SendMessage", message(`{"text":"paint"}`))
	var made a2apb.SendMessageResponse
	strict(t, result, &made)
	id := made.GetTask().GetId()
	configs := url + "/tasks/" + id + "/pushNotificationConfigs"

	t.Run("what is JSON, and not what is wanted", func(t *testing.T) {
		for body, why := range map[string]string{
			message("{}"): "unknown part", message(`{"raw":"!"}`): "base64", message(`{"text":7}`): "cannot unmarshal number", `{"message":"PARSE_ERROR"}`: "cannot unmarshal string", `[]`: "cannot unmarshal array",
		} {
			for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
				if _, code, reason := rpc(t, url, method, body); code != -32602 || reason != "INVALID_PARAMS" {
					t.Errorf("%s %s: %d %s", method, body, code, reason)
				}
			}
			for _, path := range []string{"/message:send", "/message:stream"} {
				code, h, said := do(t, http.MethodPost, url+path, body)
				if code != http.StatusBadRequest || h.Get("Content-Type") != "application/json" || !strings.Contains(said, `"INVALID_PARAMS"`) || !strings.Contains(said, why) {
					t.Errorf("%s %s: %d %s, want %q", path, body, code, said, why)
				}
			}
		}
		if code, _, said := do(t, http.MethodPost, configs, `{"url":7}`); code != http.StatusBadRequest || !strings.Contains(said, `"INVALID_PARAMS"`) || !strings.Contains(said, "cannot unmarshal number") {
			t.Errorf("a config: %d %s", code, said)
		}
	})
	t.Run("what is no JSON", func(t *testing.T) {
		if code, _, said := do(t, http.MethodPost, url, `{"jsonrpc":`); code != http.StatusOK || !strings.Contains(said, "-32700") || !strings.Contains(said, `"PARSE_ERROR"`) {
			t.Errorf("%d %s", code, said)
		}
		if code, _, said := do(t, http.MethodPost, url+"/message:send", `{"message":`); code != http.StatusBadRequest || !strings.Contains(said, `"PARSE_ERROR"`) {
			t.Errorf("%d %s", code, said)
		}
	})
	t.Run("several requests together", func(t *testing.T) {
		code, _, said := do(t, http.MethodPost, url, ` [{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}]`)
		if code != http.StatusOK || !strings.Contains(said, "-32600") || !strings.Contains(said, `"INVALID_REQUEST"`) {
			t.Errorf("%d %s", code, said)
		}
	})
	t.Run("no params", func(t *testing.T) {
		for method, wants := range map[string]string{"ListTasks": `"totalSize":1`, "GetExtendedAgentCard": `"result":{`, "GetTask": "-32001", "SendMessage": "-32602"} {
			if _, _, said := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`); !strings.Contains(said, wants) {
				t.Errorf("%s: %s, want %s", method, said, wants)
			}
		}
	})
	t.Run("a query that cannot be read", func(t *testing.T) {
		for _, query := range []string{"pageSize=x", "page_size=1e3", "historyLength=all", "includeArtifacts=maybe", "statusTimestampAfter=yesterday"} {
			code, _, said := do(t, http.MethodGet, url+"/tasks?"+query, "")
			key, value, _ := strings.Cut(query, "=")
			if code != http.StatusBadRequest || !strings.Contains(said, `"INVALID_PARAMS"`) || key != "page_size" && !strings.Contains(said, key) || !strings.Contains(said, value) {
				t.Errorf("%s: %d %s", query, code, said)
			}
		}
	})
	t.Run("PUSH-LIST-001 pages", func(t *testing.T) {
		for i := range 3 {
			if code, _, said := do(t, http.MethodPost, configs, fmt.Sprintf(`{"id":"c%d","url":"https://example.com/"}`, i)); code != http.StatusOK {
				t.Fatal(said)
			}
		}
		token, seen := "", []string{}
		for {
			_, _, said := do(t, http.MethodGet, configs+"?page_size=2&pageToken="+token, "")
			result, _, _ := rpc(t, url, "ListTaskPushNotificationConfigs", fmt.Sprintf(`{"taskId":%q,"pageSize":2,"pageToken":%q}`, id, token))
			var page a2apb.ListTaskPushNotificationConfigsResponse
			strict(t, []byte(said), &page)
			if strings.TrimSpace(said) != string(result) {
				t.Errorf("HTTP+JSON: %s, JSON-RPC: %s", said, result)
			}
			for _, c := range page.GetConfigs() {
				seen = append(seen, c.GetId())
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if got := strings.Join(seen, " "); got != "c0 c1 c2" {
			t.Errorf("%s", got)
		}
		if code, _, said := do(t, http.MethodGet, configs+"?pageSize=101", ""); code != http.StatusBadRequest {
			t.Errorf("%d %s", code, said)
		}
	})
	t.Run("PUSH-DEL-001 has an answer", func(t *testing.T) {
		_, _, said := do(t, http.MethodPost, url, `{"jsonrpc":"2.0","id":"7","method":"DeleteTaskPushNotificationConfig","params":{"taskId":"`+id+`","id":"c0"}}`)
		var answer map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(said), &answer))
		if len(answer) != 3 || string(answer["id"]) != `"7"` {
			t.Errorf("%s", said)
		}
		strict(t, answer["result"], &emptypb.Empty{})
		code, h, said := do(t, http.MethodDelete, configs+"/c1", "")
		if code != http.StatusOK || h.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", code, h.Get("Content-Type"))
		}
		strict(t, []byte(said), &emptypb.Empty{})
		if code, _, said := do(t, http.MethodDelete, url+"/tasks/x/pushNotificationConfigs/c1", ""); code != http.StatusNotFound || !strings.Contains(said, "TASK_NOT_FOUND") {
			t.Errorf("%d %s", code, said)
		}
	})
}
