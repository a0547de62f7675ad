package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// call calls a tool; args has JSON.
func (w *world) call(s *sdk.ClientSession, tool, args string) *result {
	w.t.Helper()
	r, err := w.try(w.t.Context(), s, &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	must(w.t, err)
	return r
}

func (w *world) try(ctx context.Context, s *sdk.ClientSession, p *sdk.CallToolParams) (*result, error) {
	res, err := s.CallTool(ctx, p)
	if err != nil {
		return nil, err
	}
	r := &result{failed: res.IsError}
	for _, c := range res.Content {
		if text, ok := c.(*sdk.TextContent); ok {
			r.text += text.Text
		}
	}
	if res.StructuredContent != nil {
		b, err := json.Marshal(res.StructuredContent)
		if err == nil {
			err = json.Unmarshal(b, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// until polls cond, which has to come true.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: it does not happen", what)
		}
	}
}

func TestTools(t *testing.T) {
	w := newWorld(t, false)
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			w.t = t
			s := w.join(way, w.server(0), "", nil)
			var names []string
			for tool, err := range s.Tools(t.Context(), nil) {
				must(t, err)
				names = append(names, tool.Name)
				if tool.InputSchema == nil || tool.OutputSchema == nil || tool.Description == "" {
					t.Errorf("%s has no schemas or no description", tool.Name)
				}
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != "ask ask_agent cancel get_turn list_agents reply" {
				t.Errorf("tools: %s", got)
			}
			r := w.call(s, "ask", `{"text":"hello"}`)
			if r.State != "completed" || r.Answer != "done: hello" || r.text != r.Answer || len(r.Tasks) != 1 || r.Tasks[0].Agent != "worker" || r.Tasks[0].State != "completed" {
				t.Errorf("ask = %+v", r)
			}
			again := w.call(s, "get_turn", `{"turn_id":"`+r.Turn+`"}`)
			if again.Answer != r.Answer || again.Turn != r.Turn {
				t.Errorf("get_turn = %+v, want %+v", again, r)
			}
			if r := w.call(s, "ask_agent", `{"agent":"worker","text":"it","context_id":"`+r.Context+`"}`); r.Answer != "done: it" {
				t.Errorf("ask_agent = %+v", r)
			}
			if r := w.call(s, "ask_agent", `{"agent":"nobody","text":"it"}`); r.State != "failed" || !r.failed || !strings.Contains(r.Answer, "nobody") {
				t.Errorf("ask_agent of nobody = %+v", r)
			}
			if r := w.call(s, "list_agents", `{}`); !strings.Contains(r.text, "danger: Does what cannot be undone") || strings.Contains(r.text, "input_schema") {
				t.Errorf("list_agents = %+v", r)
			}
			if r := w.call(s, "list_agents", `{"query":"told"}`); !strings.Contains(r.text, `input_schema: {"properties":{"n":{"type":"integer"}}`) || strings.Contains(r.text, "danger") {
				t.Errorf("list_agents of told = %s", r.text)
			}
			if r := w.call(s, "list_agents", `{"limit":1}`); !strings.Contains(r.text, "cursor danger") {
				t.Errorf("list_agents of one = %s", r.text)
			}
			if r := w.call(s, "list_agents", `{"cursor":"danger"}`); !strings.HasPrefix(r.text, "worker") {
				t.Errorf("list_agents behind danger = %s", r.text)
			}
		})
	}
}

// TestTrace has the trace of a call go to the agent.
func TestTrace(t *testing.T) {
	w := newWorld(t, false)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, way := range ways() {
		s := w.join(way, w.server(0), "", nil)
		for _, said := range []string{trace, "none"} {
			p := &sdk.CallToolParams{Name: "ask", Arguments: json.RawMessage(`{"text":"trace"}`), Meta: sdk.Meta{"traceparent": said}}
			r, err := w.try(t.Context(), s, p)
			must(t, err)
			if ok := strings.HasSuffix(r.Answer, ": "+trace[:35]); ok != (said == trace) {
				t.Errorf("%s, %s: the agent has %s", way, said, r.Answer)
			}
		}
	}
}

// TestHostLimit cuts calls, and lets others wait for long: each turn goes on, and is begun once.
func TestHostLimit(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			heard := make(chan string, 100)
			s := w.join(way, w.server(time.Second), "", &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, p *sdk.ProgressNotificationClientRequest) {
				heard <- p.Params.Message
			}})
			p := &sdk.CallToolParams{Name: "ask", Arguments: json.RawMessage(`{"text":"slow"}`)}
			p.SetProgressToken("p")
			short, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				if text := <-heard; !strings.Contains(text, "worker") {
					t.Errorf("progress: %s", text)
				}
			}()
			if r, err := w.try(short, s, p); err == nil {
				t.Fatalf("the call that was cut = %+v", r)
			}
			w.until("the work begins", func() bool { return w.times("slow") == 1 })
			r, err := w.try(t.Context(), s, p)
			must(t, err)
			if r.State != "working" || !strings.Contains(r.text, "Call get_turn with turn_id "+r.Turn) {
				t.Fatalf("the same call again = %+v", r)
			}
			if same := w.call(s, "ask", `{"text":"slow"}`); same.Turn != r.Turn {
				t.Errorf("and again = %+v, want turn %s", same, r.Turn)
			}
			if r := w.call(s, "get_turn", `{"turn_id":"`+r.Turn+`"}`); r.State != "working" || len(r.Tasks) != 1 || r.Tasks[0].Agent != "worker" {
				t.Errorf("get_turn meanwhile = %+v", r)
			}
			if r := w.call(s, "get_turn", `{"turn_id":"nowhere#nothing"}`); r.State != "unknown" {
				t.Errorf("get_turn of nothing = %+v", r)
			}
			close(w.gate)
			w.until("the answer", func() bool { r = w.call(s, "get_turn", `{"turn_id":"`+r.Turn+`"}`); return r.State != "working" })
			if r.Answer != "done: slow" || w.times("slow") != 1 {
				t.Errorf("get_turn = %+v, done %d times", r, w.times("slow"))
			}
			if other := w.call(s, "ask", `{"text":"slow"}`); other.Turn == r.Turn || other.Answer != "done: slow" || w.times("slow") != 2 {
				t.Errorf("asked anew = %+v, done %d times", other, w.times("slow"))
			}
		})
	}
}

func TestKey(t *testing.T) {
	w := newWorld(t, false)
	var turns []string
	for _, way := range ways() {
		w.t = t
		s := w.join(way, w.server(0), "", nil) // each is another process
		r := w.call(s, "ask", `{"text":"once","key":"k1"}`)
		turns = append(turns, r.Turn)
		if r.Answer != "done: once" {
			t.Errorf("%s: %+v", way, r)
		}
	}
	if slices.Sort(turns); turns[0] != turns[len(turns)-1] || w.times("once") != 1 {
		t.Errorf("turns %q, done %d times", turns, w.times("once"))
	}
	s := w.join("stdio 2026-07-28", w.server(0), "", nil)
	if r := w.call(s, "ask", `{"text":"otherwise","key":"k1"}`); r.Turn == turns[0] || r.Answer != "done: otherwise" {
		t.Errorf("other words with the key = %+v", r)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t, false)
	s := w.join("stdio 2026-07-28", w.server(200*time.Millisecond), "", nil)
	r := w.call(s, "ask", `{"text":"slow"}`)
	w.until("the work begins", func() bool { return w.times("slow") == 1 })
	if x := w.call(s, "cancel", `{"turn_id":"`+r.Turn+`","task_id":"other"}`); !x.failed {
		t.Errorf("cancel of another task = %+v", x)
	}
	w.call(s, "cancel", `{"turn_id":"`+r.Turn+`"}`)
	w.until("the end", func() bool { r = w.call(s, "get_turn", `{"turn_id":"`+r.Turn+`"}`); return r.State != "working" })
	if w.call(s, "cancel", `{"turn_id":"`+r.Turn+`"}`); r.Tasks[0].State != "canceled" {
		t.Errorf("canceled = %+v", r)
	}
}

// form answers forms, one after the other.
func form(t *testing.T, replies ...string) func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	n := 0
	return func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		if n == len(replies) {
			t.Errorf("another question: %s", r.Params.Message)
			return &sdk.ElicitResult{Action: "cancel"}, nil
		}
		n++
		if reply := replies[n-1]; reply == "decline" || reply == "cancel" {
			return &sdk.ElicitResult{Action: reply}, nil
		}
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reply": replies[n-1]}}, nil
	}
}

func TestQuestions(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			d := w.server(0)
			plain := w.join(way, d, "", nil)
			r := w.call(plain, "ask", `{"text":"paint"}`)
			if r.State != "input_required" || !strings.Contains(r.Question, "Which colour?") || !strings.Contains(r.text, "reply with turn_id "+r.Turn) {
				t.Fatalf("ask = %+v", r)
			}
			if again := w.call(plain, "get_turn", `{"turn_id":"`+r.Turn+`"}`); again.State != "input_required" {
				t.Errorf("get_turn = %+v", again)
			}
			for range 2 { // the second is the same
				if said := w.call(plain, "reply", `{"turn_id":"`+r.Turn+`","text":"blue"}`); said.State != "completed" || said.Answer != "done: blue" {
					t.Errorf("reply = %+v", said)
				}
			}
			if late := w.call(plain, "reply", `{"turn_id":"`+r.Turn+`","text":"green"}`); !late.failed || w.times("green") != 0 {
				t.Errorf("a reply to what is answered = %+v", late)
			}
			if w.times("blue") != 1 {
				t.Errorf("the reply was heard %d times", w.times("blue"))
			}
			asks := w.join(way, d, "", &sdk.ClientOptions{ElicitationHandler: form(t, "red", "dark")})
			if r := w.call(asks, "ask", `{"text":"paint"}`); r.State != "completed" || r.Answer != "done: dark" {
				t.Errorf("ask with forms = %+v", r)
			}
			asks = w.join(way, d, "", &sdk.ClientOptions{ElicitationHandler: form(t, "cancel")})
			if r := w.call(asks, "ask", `{"text":"paint"}`); r.State != "input_required" {
				t.Errorf("ask with a form that is put away = %+v", r)
			}
		})
	}
}

func TestConsent(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			d := w.server(0)
			plain := w.join(way, d, "", nil)
			r := w.call(plain, "ask", `{"text":"danger one"}`)
			if r.State != "input_required" || r.Tasks[0].State != "auth_required" {
				t.Fatalf("ask = %+v", r)
			}
			if r := w.call(plain, "reply", `{"turn_id":"`+r.Turn+`","text":"yes"}`); r.Answer != "done: danger one" {
				t.Errorf("yes = %+v", r)
			}
			if r := w.call(w.join(way, d, "", &sdk.ClientOptions{ElicitationHandler: form(t, "yes")}), "ask", `{"text":"danger two"}`); r.Answer != "done: danger two" {
				t.Errorf("yes in a form = %+v", r)
			}
			for _, no := range []string{"no", "decline"} {
				r = w.call(w.join(way, d, "", &sdk.ClientOptions{ElicitationHandler: form(t, no)}), "ask", `{"text":"danger three"}`)
				if r.State == "input_required" || w.times("danger three") > 0 {
					t.Errorf("%s in a form = %+v, done %d times", no, r, w.times("danger three"))
				}
			}
			// A model cannot say yes in place of a user who can be asked.
			asks := w.join(way, d, "", &sdk.ClientOptions{ElicitationHandler: form(t, "cancel", "no")})
			if r = w.call(asks, "ask", `{"text":"danger four"}`); r.State != "input_required" {
				t.Errorf("a form that is put away = %+v", r)
			}
			if w.call(asks, "reply", `{"turn_id":"`+r.Turn+`","text":"yes"}`); w.times("danger four") > 0 {
				t.Error("the model's yes counted")
			}
		})
	}
}

func TestResources(t *testing.T) {
	w := newWorld(t, false)
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			w.t = t
			s := w.join(way, w.server(0), "", nil)
			read := func(uri string) (string, error) {
				r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
				if err != nil {
					return "", err
				}
				return r.Contents[0].Text + string(r.Contents[0].Blob), nil
			}
			r := w.call(s, "ask", `{"text":"file","context_id":"a/b%é`+strings.ReplaceAll(way, " ", "-")+`"}`)
			r = w.call(s, "ask_agent", `{"agent":"worker","text":"file","context_id":"`+r.Context+`"}`)
			if len(r.Files) != 1 || r.Files[0].Name != "t able.csv" {
				t.Fatalf("ask = %+v", r)
			}
			for uri, want := range map[string]string{
				r.Files[0].URI:           "a,b\n1,2\n",
				"cortex://agents":        `"id": "danger"`,
				"cortex://agents/worker": "Does what it is told",
				"cortex://conversations": `"context_id": "` + r.Context + `"`,
			} {
				if got, err := read(uri); err != nil || !strings.Contains(got, want) {
					t.Errorf("%s = %s, %v, want %s", uri, got, err, want)
				}
			}
			var list []struct{ URI, Context_ID string }
			all, err := read("cortex://conversations")
			must(t, err)
			must(t, json.Unmarshal([]byte(all), &list))
			if got, err := read(list[0].URI); err != nil || !strings.Contains(got, "**user**: file") || !strings.Contains(got, "t able.csv") {
				t.Errorf("%s = %s, %v", list[0].URI, got, err)
			}
			for _, uri := range []string{"cortex://agents/nobody", "cortex://conversations/none", "cortex://artifacts/a/b/1", "cortex://artifacts/a/b/-1", "cortex://conversations/%00", "cortex://x", strings.TrimSuffix(r.Files[0].URI, "1") + "2"} {
				if got, err := read(uri); err == nil {
					t.Errorf("%s = %s, want an error", uri, got)
				}
			}
		})
	}
}

// TestHostile sends what no host sends. None of it is processed, and the server goes on.
func TestHostile(t *testing.T) {
	w := newWorld(t, false)
	srv := httptest.NewServer(w.server(0).Handler(nil))
	defer srv.Close()
	huge := strings.Repeat("x", 2<<20)
	values := strings.Repeat("{},", 300_000) + "{}"
	session := begin(t, srv.URL)
	for what, of := range map[string]struct {
		body   string
		header []string
	}{
		"many values":                {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[` + values + `]}}`, []string{"Mcp-Session-Id", session}},
		"much to begin a session":    {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":"` + strings.Repeat("x", 65<<10) + `"}}`, nil},
		"many values and no session": {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[` + values + `]}}`, []string{"Mcp-Protocol-Version", "2026-07-28"}},
	} {
		if code, _, said := post(t, srv.URL, of.body, of.header...); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %.200s", what, code, said)
		}
	}
	if code, _, _ := post(t, srv.URL, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+huge+`"}}`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge message: %d", code)
	}
	for _, body := range []string{"", "null", "[]", "{", strings.Repeat("[", 10000), `{"jsonrpc":"2.0","id":{},"method":"tools/call"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`} {
		if code, _, b := post(t, srv.URL, body); code == http.StatusOK && !strings.Contains(b, "error") {
			t.Errorf("%.50s: %d %s", body, code, b)
		}
	}
	for _, way := range []string{"stdio 2025-11-25", "stdio 2026-07-28"} {
		s := w.join(way, w.server(0), "", nil)
		for tool, args := range map[string]any{
			"ask":         map[string]any{"text": huge},
			"ask_agent":   map[string]any{"agent": huge[:1000], "text": "x"},
			"get_turn":    map[string]any{"turn_id": "a b#c"},
			"reply":       map[string]any{"turn_id": "none#none", "text": "yes"},
			"cancel":      map[string]any{"turn_id": "#"},
			"list_agents": map[string]any{"limit": "many"},
		} {
			r, err := w.try(t.Context(), s, &sdk.CallToolParams{Name: tool, Arguments: args})
			must(t, err)
			if !r.failed || len(r.text) > 2000 {
				t.Errorf("%s: %s(…) = %.300s, want a short error", way, tool, r.text)
			}
		}
		for _, args := range []string{`{"text":" "}`, `{"text":"x","context_id":"a b"}`, `{"text":"x","context_id":"agent:worker"}`, `{"text":"x","key":"` + huge[:300] + `"}`, `{"text":"x","other":1}`, `{}`} {
			if r := w.call(s, "ask", args); !r.failed {
				t.Errorf("%s: ask %.50s = %+v", way, args, r)
			}
		}
		forged := &sdk.CallToolParams{Name: "ask", Arguments: json.RawMessage(`{"text":"x"}`), RequestState: "a#b c#d", InputResponses: sdk.InputResponseMap{"reply": &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reply": "yes"}}}}
		if r, err := w.try(t.Context(), s, forged); err != nil || !r.failed {
			t.Errorf("%s: a forged state = %+v, %v", way, r, err)
		}
		if r := w.call(s, "ask", `{"text":"hello"}`); r.Answer != "done: hello" {
			t.Errorf("%s: afterwards = %+v", way, r)
		}
	}
}

// TestCallsAreBounded has a caller wait for more than one may.
func TestCallsAreBounded(t *testing.T) {
	w := newWorld(t, false)
	s := w.join("stdio 2026-07-28", w.server(0), "", nil)
	said := make(chan *result, 100)
	for i := range 65 {
		go func() {
			r, err := w.try(t.Context(), s, &sdk.CallToolParams{Name: "ask", Arguments: json.RawMessage(fmt.Sprintf(`{"text":"slow %d"}`, i))})
			if err != nil {
				r = &result{text: err.Error()}
			}
			said <- r
		}()
	}
	if r := <-said; !r.failed || !strings.Contains(r.text, "too many calls") {
		t.Errorf("one call too many = %+v", r)
	}
	close(w.gate)
	for range 64 {
		if r := <-said; r.State != "completed" {
			t.Errorf("ask = %+v", r)
		}
	}
}

// TestOnlyTheProtocol looks at what comes on standard output: messages, a line each.
func TestOnlyTheProtocol(t *testing.T) {
	w := newWorld(t, false)
	in, host := io.Pipe()
	out, server := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- w.server(0).Serve(t.Context(), in, server) }()
	go fmt.Fprint(host, initialize+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"text":"hello"}}}`+"\n")
	var lines []string
	for r := bufio.NewScanner(out); len(lines) < 2 && r.Scan(); {
		lines = append(lines, r.Text())
	}
	host.Close()
	must(t, <-ended)
	for _, line := range lines {
		if !json.Valid([]byte(line)) || !strings.Contains(line, `"jsonrpc":"2.0"`) {
			t.Errorf("%s", line)
		}
	}
}
