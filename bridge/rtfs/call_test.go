package rtfs

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
)

// ownCard returns the card of an agent of Cortex's own.
func ownCard(name string) *a2a.AgentCard {
	return agentcard.Attach(&a2a.AgentCard{
		Name: name, Description: "Says it again", Version: "2.0.0",
		Skills: []a2a.AgentSkill{{ID: "say", Name: "Say", Description: "Says it again", Tags: []string{"words"}}, {ID: "sum", Name: "Sum", Description: "Adds", Tags: []string{}}},
	}, &agentcard.Spec{
		Labels:    map[string]string{"floor": "2"},
		Abilities: map[string]agentcard.Ability{"sum": {InputSchema: json.RawMessage(`{"type":"object"}`), DispatchKey: "sum_up"}},
	})
}

func echo(_ context.Context, t *agents.Task) (*agents.Result, error) {
	if in := t.Input(); in != nil {
		return &agents.Result{Parts: a2a.ContentParts{a2a.NewDataPart(map[string]any{"got": in})}}, nil
	}
	return agents.Text("again: " + t.Text()), nil
}

// A registered agent does Cortex's work, by the contract of a call.
func TestCall(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, func(rw http.ResponseWriter, n int, r *http.Request) {
		says(map[int]string{
			1: `{"success":true,"output":"two pages","error":null,"execution_time_ms":12,"metadata":{}}`,
			2: `{"success":true,"output":{":pages":[1,2]}}`,
			3: `{"success":false,"output":null,"error":"there is no such file","execution_time_ms":1,"metadata":{}}`,
		}[n])(rw, n, r)
	})
	w.register(pdf("pdf", agent.URL+"/rtfs"), agent.URL, 60)
	w.Knows("pdf")
	if got := w.Ask("pdf", "pdf.split", "split a.pdf", ""); got != "two pages" {
		t.Errorf("the answer = %q", got)
	}
	if got := w.Ask("pdf", "", "", `{"file":"a.pdf","pages":12345678901234567890}`); !strings.Contains(got, `":pages"`) {
		t.Errorf("the answer = %q", got)
	}
	if got := w.Ask("pdf", "pdf.split", "and b.pdf", ""); !strings.Contains(got, "there is no such file") {
		t.Errorf("the answer = %q", got)
	}
	var inputs []string
	for i, text := range agent.calls {
		var c struct {
			Capability string          `json:"capability_id"`
			Input      json.RawMessage `json:"input"`
			Metadata   map[string]any  `json:"metadata"`
			Options    any             `json:"options"`
		}
		must(t, json.Unmarshal([]byte(text), &c))
		if c.Capability != "pdf.split" || c.Metadata["client"] != "cortex" || c.Options != nil || agent.heads[i].Get("Idempotency-Key") == "" || !strings.Contains(agent.heads[i].Get("Traceparent"), "4bf92f3577b34da6a3ce929d0e0e4736") {
			t.Errorf("call %d: %s %v", i, text, agent.heads[i])
		}
		inputs = append(inputs, string(c.Input))
	}
	if diff := cmp.Diff([]string{`{"text":"split a.pdf"}`, `{"file":"a.pdf","pages":12345678901234567890}`, `{"text":"and b.pdf"}`}, inputs); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
}

// What an agent does wrong fails the task, in words, and is not asked for twice.
func TestCallFails(t *testing.T) {
	w := newWorld(t)
	w.times.call = time.Second
	w.serve()
	for name, c := range map[string]struct {
		do   func(http.ResponseWriter, int, *http.Request)
		want []string
		not  string
	}{
		"500": {func(rw http.ResponseWriter, _ int, _ *http.Request) { http.Error(rw, "oops", 500) }, []string{"HTTP 500", "oops", "may have been done"}, ""},
		"404": {func(rw http.ResponseWriter, _ int, _ *http.Request) { http.Error(rw, "where", 404) }, []string{"HTTP 404", "where"}, "may have been done"},
		"a redirect": {func(rw http.ResponseWriter, _ int, r *http.Request) {
			http.Redirect(rw, r, "/other", http.StatusTemporaryRedirect)
		}, []string{"HTTP 307", "not followed"}, ""},
		"nothing":             {func(http.ResponseWriter, int, *http.Request) { panic(http.ErrAbortHandler) }, []string{"got lost", "may have been done"}, ""},
		"no JSON":             {says("done"), []string{"cannot be read", "may have been done"}, ""},
		"no success":          {says("{}"), []string{"does not say", "may have been done"}, ""},
		"success without why": {says(`{"success":false}`), []string{"gave no reason"}, "may have been done"},
		"too much":            {says(`{"success":true,"output":"` + strings.Repeat("x", maxAnswer) + `"}`), []string{"more than 4 MiB", "may have been done"}, ""},
		"too deep":            {says(`{"success":true,"output":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`), []string{"nested too deep"}, ""},
		"too late":            {func(_ http.ResponseWriter, _ int, r *http.Request) { <-r.Context().Done() }, []string{"cut off", "longer than 1s", "may have been done"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, c.do)
			id := strings.ReplaceAll(name, " ", "-")
			w.register(pdf(id, agent.URL), agent.URL, 60)
			w.Knows(id)
			got := w.Ask(id, "pdf.split", "do it", "")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the answer = %q, want %q in it", got, want)
				}
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("the answer = %q, want no %q in it", got, c.not)
			}
			if n := agent.called(); n != 1 {
				t.Errorf("it was called %d times", n)
			}
		})
	}
}

// An agent that says so is called again when an answer got lost.
func TestIdempotent(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, func(rw http.ResponseWriter, n int, r *http.Request) {
		if n < 3 {
			panic(http.ErrAbortHandler)
		}
		says(`{"success":true,"output":"at last"}`)(rw, n, r)
	})
	c := pdf("pdf", agent.URL)
	c["metadata"] = map[string]any{"idempotent": true}
	w.register(c, agent.URL, 60)
	w.Knows("pdf")
	if got := w.Ask("pdf", "pdf.split", "do it", ""); got != "at last" {
		t.Errorf("the answer = %q", got)
	}
	if agent.heads[0].Get("Idempotency-Key") != agent.heads[2].Get("Idempotency-Key") {
		t.Error("the calls have different keys")
	}
}

// When nothing was sent, the next endpoint is tried, and the task fails without a doubt.
func TestEndpoints(t *testing.T) {
	w := newWorld(t)
	w.serve()
	agent := newAgent(t, says(`{"success":true,"output":"here"}`))
	gone := newAgent(t, nil)
	gone.Close()
	c := pdf("pdf", gone.URL)
	communication := c["communication"].(map[string]any)
	communication["endpoints"] = append([]any{map[string]any{"protocol": "websocket", "uri": "ws://nowhere"}}, communication["endpoints"].([]any)...)
	w.register(c, agent.URL, 60)
	w.register(pdf("gone", gone.URL), gone.URL, 60)
	w.Knows("pdf")
	w.Knows("gone")
	if got := w.Ask("pdf", "pdf.split", "do it", ""); got != "here" {
		t.Errorf("the answer = %q", got)
	}
	if got := w.Ask("gone", "pdf.split", "do it", ""); !strings.Contains(got, "nothing was sent") || strings.Contains(got, "may have been done") {
		t.Errorf("the answer = %q", got)
	}
}

// A card that changes does not disturb a call, and holds for the next one.
func TestCardChanges(t *testing.T) {
	w := newWorld(t)
	w.serve()
	begun, end := make(chan struct{}), make(chan struct{})
	agent := newAgent(t, func(rw http.ResponseWriter, n int, r *http.Request) {
		if n == 1 {
			close(begun)
			<-end
		}
		says(`{"success":true,"output":"done"}`)(rw, n, r)
	})
	w.register(pdf("pdf", agent.URL), agent.URL, 60)
	w.Knows("pdf")
	answer := make(chan string)
	go func() { answer <- w.Ask("pdf", "pdf.split", "do it", "") }()
	<-begun
	c := pdf("pdf", agent.URL)
	c["capabilities"] = []any{map[string]any{"capability_id": "pdf.join", "description": "Joins"}}
	w.register(c, agent.URL, 60)
	w.Until("the new card is known", func() bool {
		r, ok := w.Directory.Registry.Snapshot().Get("pdf")
		return ok && r.Card.Skills[0].ID == "pdf.join"
	})
	close(end)
	if got := <-answer; got != "done" {
		t.Errorf("the answer = %q", got)
	}
	if got := w.Ask("pdf", "pdf.join", "do it", ""); got != "done" || !strings.Contains(agent.calls[1], `"pdf.join"`) {
		t.Errorf("the answer = %q to %s", got, agent.calls[1])
	}
}
