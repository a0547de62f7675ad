package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// What the SDK's transports take or answer in a way that is not that of the protocol, or another one in each binding, is mended here.

const (
	maxBare   = 1 << 10 // bytes of a request that may have no params
	maxMended = 8 << 10 // bytes of an answer that may have to be mended
)

// mendRequest returns a body as the SDK takes it, and why the request is none, if it is not.
func mendRequest(w *reply, r *http.Request, path string, body []byte, query url.Values, rest bool) (_ []byte, why string) {
	w.body, w.rest, w.path = body, rest, path
	if rest {
		w.deletes = r.Method == http.MethodDelete
		return body, badQuery(query)
	}
	w.deletes = bytes.Contains(body, []byte(`"DeleteTaskPushNotificationConfig"`))
	if text := bytes.TrimSpace(body); !bytes.HasPrefix(text, []byte("{")) && json.Valid(text) {
		return body, "a request is an object: requests are not taken together"
	}
	if len(body) > maxBare {
		return body, ""
	}
	var call map[string]json.RawMessage
	if json.Unmarshal(body, &call) != nil || call["params"] != nil {
		return body, ""
	}
	call["params"] = json.RawMessage("{}")
	if b, err := json.Marshal(call); err == nil {
		return b, ""
	}
	return body, ""
}

// badQuery says what is wrong with a query; "" is nothing.
func badQuery(q url.Values) string {
	for key, is := range map[string]func(string) bool{
		"pageSize": isInt, "historyLength": isInt,
		"includeArtifacts": func(v string) bool {
			_, err := strconv.ParseBool(v)
			return err == nil
		},
		"statusTimestampAfter": func(v string) bool {
			_, err := time.Parse(time.RFC3339, v)
			return err == nil
		},
	} {
		if v := q.Get(key); v != "" && !is(v) {
			return key + ": " + quoted(v) + " is none"
		}
	}
	return ""
}

func isInt(v string) bool {
	_, err := strconv.ParseInt(v, 10, 32)
	return err == nil
}

// pageKey is the key of the query of a call by HTTP+JSON, of which the SDK forgets the page of a list of push notification configs.
type pageKey struct{}

// pageOf returns which page of a list of push notification configs is asked for.
func pageOf(ctx context.Context, req *a2a.ListTaskPushConfigRequest) (size int, token string) {
	q, ok := ctx.Value(pageKey{}).(url.Values)
	if !ok {
		return req.PageSize, req.PageToken
	}
	size, _ = strconv.Atoi(q.Get("pageSize")) // badQuery has seen it
	return size, q.Get("pageToken")
}

// mended returns an answer as the protocol has it. What is JSON, but not what is wanted, is no parse error; what has nothing to say is an object; and
// an error that is [Exhausted] has another status, which is returned; otherwise code is 0.
func (w *reply) mended(b []byte) (_ []byte, code int) {
	wrong := bytes.Contains(b, []byte(`"PARSE_ERROR"`))
	busy := w.rest && bytes.Contains(b, []byte(`"`+Exhausted+`"`))
	if len(b) > maxMended || !wrong && !busy && (!w.deletes || w.rest) {
		return b, 0
	}
	var said map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&said) != nil {
		return b, 0
	}
	failed, _ := said["error"].(map[string]any)
	switch {
	case busy && isExhausted(failed):
		code = beExhausted(failed)
	case failed == nil && w.deletes && said["jsonrpc"] != nil && said["result"] == nil:
		said["result"] = map[string]any{}
	case failed != nil && wrong && json.Valid(w.body):
		text, _ := failed["message"].(string)
		_, text, _ = strings.Cut(text, "parse error: ")
		details := failed["details"]
		if w.rest {
			text = w.unreadable()
		} else {
			failed["code"], details = codeInvalidParams, failed["data"]
		}
		failed["message"] = "invalid params: " + text
		all, _ := details.([]any)
		for _, of := range all {
			if info, ok := of.(map[string]any); ok && info["reason"] == a2a.ErrorReason(a2a.ErrParseError) {
				info["reason"] = a2a.ErrorReason(a2a.ErrInvalidParams)
			}
		}
	default:
		return b, 0
	}
	out, err := json.Marshal(said)
	if err != nil {
		return b, 0
	}
	return append(out, '\n'), code
}

// codeInvalidParams is the code of a2a.ErrInvalidParams in JSON-RPC.
const codeInvalidParams = -32602

// unreadable returns why the body cannot be read, which the SDK does not say with HTTP+JSON.
func (w *reply) unreadable() string {
	var to any = &a2a.SendMessageRequest{}
	if strings.HasSuffix(w.path, "/pushNotificationConfigs") {
		to = &a2a.PushConfig{}
	}
	if err := json.Unmarshal(w.body, to); err != nil {
		return prompt.Clean(err.Error(), 200)
	}
	return "the body is not what is wanted"
}
