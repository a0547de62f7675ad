package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestHostileCards reads cards of strangers. What cannot be used says why.
func TestHostileCards(t *testing.T) {
	big := strings.Repeat("x", 70<<10)
	many := []any{}
	for i := range 150 {
		many = append(many, map[string]any{"id": fmt.Sprint("s", i), "name": "S", "description": strings.Repeat("d", 250), "tags": []string{}})
	}
	for name, test := range map[string]struct {
		fields map[string]any
		raw    string
		serve  http.HandlerFunc
		want   string // in the error; "": the card is used
	}{
		"as it should be":      {},
		"many skills":          {fields: map[string]any{"skills": many}},
		"too large":            {fields: map[string]any{"description": big}, want: "its card has more than 64 KiB"},
		"endless":              {serve: func(w http.ResponseWriter, _ *http.Request) { endless(w, "[") }, want: "its card has more than 64 KiB"},
		"nested":               {raw: strings.Repeat("[", 30_000), want: "its card is no JSON object"},
		"no card":              {raw: "<html>", want: "its card is no JSON object"},
		"a list":               {raw: "[]", want: "its card is no JSON object"},
		"null":                 {raw: "null", want: "name is missing"},
		"skills are a text":    {fields: map[string]any{"skills": "all"}, want: "skills"},
		"no name":              {fields: map[string]any{"name": ""}, want: "name is missing"},
		"Cortex itself":        {fields: map[string]any{"name": "cortex"}, want: "the orchestrator's own"},
		"a person":             {fields: map[string]any{"name": "user:ada"}, want: "kept for people"},
		"a caller":             {fields: map[string]any{"name": "rtfs:anonymous"}, want: `does not begin with "rtfs:"`},
		"a name too long":      {fields: map[string]any{"name": strings.Repeat("n", 400)}, want: "its card"},
		"not found":            {serve: http.NotFound, want: "the agent answers 404 Not Found"},
		"another host":         {fields: at("http://169.254.169.254/rpc", "JSONRPC"), want: "which is not its own: allow it with --allow-host"},
		"another host by gRPC": {fields: at("example.com:443", "GRPC"), want: "which is not its own"},
		"a socket by gRPC":     {fields: at("unix:///var/run/docker.sock", "GRPC"), want: "is no URL"},
		"a file":               {fields: at("file:///etc/passwd", "JSONRPC"), want: "is no URL"},
		"a user in the URL":    {fields: at("http://a:b@127.0.0.1/rpc", "JSONRPC"), want: "is no URL"},
		"another binding":      {fields: at("http://127.0.0.1/rpc", "CARRIER-PIGEON"), want: "no compatible transports found"},
		"another version":      {fields: map[string]any{"supportedInterfaces": []any{map[string]any{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "7.0"}}}, want: "no compatible transports found"},
		"no interface":         {fields: map[string]any{"supportedInterfaces": []any{}}, want: "names no interface"},
		"null interfaces":      {fields: map[string]any{"supportedInterfaces": []any{nil}}, want: "names no interface"},
		"a redirect": {serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		}, want: "it redirects to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, "JSONRPC 1.0", true)
			p.card = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case test.serve != nil:
					test.serve(w, r)
				case test.raw != "":
					fmt.Fprint(w, test.raw)
				default:
					w.Write(p.describe(test.fields))
				}
				return true
			}
			a, err := peers.Open(t.Context(), &peers.Peer{URL: p.server.URL}, &peers.Options{Dir: t.TempDir()})
			if err == nil {
				defer a.Close()
			}
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want == "":
				if err := transport.ValidateCard(a.Card()); err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 600:
				t.Errorf("Open = %v, want %q", err, test.want)
			}
		})
	}
}

func at(url, binding string) map[string]any {
	return map[string]any{"supportedInterfaces": []any{map[string]any{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}}}
}

// endless writes text until the connection ends.
func endless(w http.ResponseWriter, text string) {
	text = strings.Repeat(text, 1+(64<<10)/len(text))
	for {
		if _, err := w.Write([]byte(text)); err != nil {
			return
		}
	}
}

// TestHostilePeer gives a task to peers that answer what they should not.
func TestHostilePeer(t *testing.T) {
	event := func(result string) string {
		return `data: {"jsonrpc":"2.0","id":"1","result":` + result + "}\n\n"
	}
	status := func(state string) string {
		return event(`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"` + state + `","message":{"messageId":"1","role":"ROLE_AGENT","parts":[{"text":"said"}]}}}}`)
	}
	begun := event(`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`)
	artifact := func(id, text string) string {
		return event(`{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"` + id + `","parts":[{"text":"` + text + `"}]}}}`)
	}
	values := func(n int) string { // few bytes, much memory
		return event(`{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"1","parts":[{"data":[` + strings.Repeat("{},", n) + `{}]}]}}}`)
	}
	for name, test := range map[string]struct {
		stream string           // what a stream says
		serve  http.HandlerFunc // instead
		plain  string           // what other calls get
		alone  bool             // it leaves too little room for the others, as all are at one host
		want   string
		state  a2a.TaskState
	}{
		"as it should be": {stream: begun + status("TASK_STATE_COMPLETED"), want: "said", state: a2a.TaskStateCompleted},
		"no state at all": {stream: begun + status("TASK_STATE_DREAMING") + status("") + status("TASK_STATE_COMPLETED"), want: "said", state: a2a.TaskStateCompleted},
		"empty parts":     {stream: event(`{"task":{"id":"t","artifacts":[null,{"artifactId":"1","parts":[null,{"text":""}]}],"status":{"state":"TASK_STATE_COMPLETED","message":{"parts":[null]}}}}`), state: a2a.TaskStateCompleted},
		"another's event": {stream: begun + strings.ReplaceAll(status("TASK_STATE_FAILED"), `"t"`, `"u"`) + status("TASK_STATE_COMPLETED"), want: "said", state: a2a.TaskStateCompleted},
		"no task's event": {stream: strings.ReplaceAll(status("TASK_STATE_COMPLETED"), `"t"`, `""`), want: "an event names no task"},
		"a long id":       {stream: strings.ReplaceAll(begun, `"t"`, `"`+strings.Repeat("t", 2000)+`"`), want: "an id has more than 1024 bytes"},
		"no words":        {stream: "", want: "says nothing, and names no task"},
		"only comments":   {stream: ": keep-alive\n\n", want: "says nothing, and names no task"},
		"null":            {stream: event("null"), want: "unknown event type"},
		"two results":     {stream: event(`{"task":{"id":"t"},"message":{"messageId":"1"}}`), want: "expected exactly one event type"},
		"no JSON":         {stream: "data: {\n\n", want: "failed to parse SSE data"},
		"many artifacts":  {stream: begun + manyArtifacts(artifact), want: "it says too much"},
		"endless events": {serve: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, begun)
			endless(w, artifact("1", strings.Repeat("x", 256<<10)))
		}, want: "it says too much", alone: true},
		"an endless event": {serve: func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, begun)
			endless(w, "data: "+strings.Repeat("x", 1000)+"\n")
		}, want: "it says too much"},
		"many values":                {stream: begun + values(1_000_000), want: "it says too much: the answer has too many values"},
		"many values behind a quote": {stream: begun + ": \"\n" + values(1_000_000), want: "it says too much: the answer has too many values"},
		"many values in many events": {stream: begun + strings.Repeat(values(200_000), 5), want: "it says too much: a task has at most"},
		"a task of many values": {
			stream: begun, plain: `{"id":"t","metadata":{"a":[` + strings.Repeat("{},", 1_000_000) + `{}]},"status":{"state":"TASK_STATE_COMPLETED"}}`, want: "it says too much: the answer has too many values",
		},
		"an endless line":  {serve: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "data: "); endless(w, "x") }, want: "token too long"},
		"a long error":     {stream: `data: {"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"` + strings.Repeat("e", 100_000) + `"}}` + "\n\n", want: "eee…"},
		"an error as JSON": {serve: asJSON(`{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"not\nlike this"}}`), want: "like this", state: a2a.TaskStateRejected},
		"an error as 404": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"unlike this"}}`)
		}, want: "unlike this"},
		"no stream": {
			serve: asJSON(`{"jsonrpc":"2.0","id":"1","error":{"code":-32004,"message":"no streams"}}`),
			plain: `{"message":{"messageId":"1","taskId":"none","role":"ROLE_AGENT","parts":[{"text":"plain"}]}}`, want: "plain", state: a2a.TaskStateCompleted,
		},
		"a page": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>")
		}, want: "failed to parse SSE data"},
		"nobody is let in": {serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, want: "does not let Cortex in (401 Unauthorized)"},
		"an error page": {serve: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "it broke", http.StatusInternalServerError)
		}, want: "500 Internal Server Error: it broke"},
		"a redirect": {serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, want: "it redirects to"},
		"another task":      {stream: begun, plain: `{"id":"u","status":{"state":"TASK_STATE_COMPLETED"}}`, want: "it gives another task"},
		"a task of 40 MiB":  {stream: begun, plain: `{"id":"t","status":{"state":"TASK_STATE_COMPLETED","message":{"parts":[{"text":"` + strings.Repeat("x", 40<<20) + `"}]}}}`, want: "it says too much"},
		"a question, twice": {stream: begun + status("TASK_STATE_INPUT_REQUIRED") + status("TASK_STATE_COMPLETED"), want: "said", state: a2a.TaskStateInputRequired},
		"a question of none": {
			stream: begun + event(`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`), want: "wants to know more", state: a2a.TaskStateInputRequired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			s := httptest.NewUnstartedServer(nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == a2asrv.WellKnownAgentCardPath:
					b, _ := json.Marshal(map[string]any{
						"name": "stranger", "description": "d", "version": "1", "capabilities": map[string]any{"streaming": true}, "skills": []any{},
						"supportedInterfaces": at(s.URL+"/rpc", "JSONRPC")["supportedInterfaces"],
					})
					w.Write(b)
				case r.Header.Get("Accept") != "text/event-stream":
					asJSON(`{"jsonrpc":"2.0","id":"1","result":`+test.plain+`}`)(w, r)
				case test.serve != nil:
					w.Header().Set("Content-Type", "text/event-stream")
					test.serve(w, r)
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, test.stream)
				}
			})
			s.Start()
			defer s.Close()
			a := open(t, t.TempDir(), &peers.Peer{URL: s.URL})
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, agents.ErrCanceled)
			defer cancel()
			got := give(ctx, a, given{id: "1", message: "m", text: "hello"})
			if want := test.state; want == "" || want == a2a.TaskStateRejected {
				test.state = a2a.TaskStateFailed
			}
			if got.state != test.state || !strings.Contains(got.text, test.want) || len(got.text) > 4<<10 {
				t.Errorf("got %s %.600q, want %s %q", got.state, got.text, test.state, test.want)
			}
		})
	}
}

func asJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
}

func manyArtifacts(one func(id, text string) string) string {
	all := ""
	for i := range agents.MaxArtifacts + 1 {
		all += one(fmt.Sprint(i), "x")
	}
	return all
}
