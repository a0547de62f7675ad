package a2a_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
	"github.com/cortex-orchestrator/cortex/agents/agentstest"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestRequest checks what a peer is given of a task: its texts, values and files, and what keeps two orchestrators from asking each other in circles.
func TestRequest(t *testing.T) {
	meta := map[string]any{transport.MetaHops: float64(2), transport.MetaAncestors: []any{"planner"}, transport.MetaUserText: "secret words", transport.MetaDeadline: "2030-01-01T00:00:00Z"}
	parts := a2a.ContentParts{
		a2a.NewTextPart("say "), a2a.NewDataPart(map[string]any{"n": float64(1)}),
		{Content: a2a.Raw("a,b\n"), Filename: "../t.csv", MediaType: "text/csv", Metadata: map[string]any{transport.MetaFile: "f1"}},
		a2a.NewFileURLPart("https://example.com/x", "image/png"),
	}
	file := &a2a.Part{Content: a2a.Raw("a,b\n"), Filename: "t.csv", MediaType: "text/csv"}
	link := a2a.NewFileURLPart("https://example.com/x", "image/png")
	for _, binding := range bindings {
		for skill, want := range map[string]a2a.ContentParts{
			"forecast": {a2a.NewTextPart("say "), a2a.NewTextPart(`{"n":1}`), file, link}, // it takes text only
			"chart":    {a2a.NewTextPart("say "), a2a.NewDataPart(map[string]any{"n": float64(1)}), file, link},
		} {
			t.Run(binding+" "+skill, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, true)
				a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
				task := &agents.Task{
					ID: "1", ContextID: "c", Skill: skill, Message: &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: parts, Metadata: meta}, Delivery: 1,
					Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				}
				for _, err := range a.Execute(t.Context(), task) {
					if err != nil {
						t.Fatal(err)
					}
				}
				got := p.all()[0]
				if diff := cmp.Diff(want, got.Parts); diff != "" {
					t.Errorf("parts (-want +got):\n%s", diff)
				}
				wantMeta := map[string]any{transport.MetaHops: float64(2), transport.MetaAncestors: []any{"planner"}, transport.MetaForSkill: skill}
				if diff := cmp.Diff(wantMeta, got.Metadata); diff != "" {
					t.Errorf("metadata (-want +got):\n%s", diff)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				for _, h := range p.headers {
					if h.Get("Traceparent") != task.Traceparent {
						t.Errorf("traceparent %q", h.Get("Traceparent"))
					}
				}
			})
		}
	}
}

// TestSpans has a span for each message that is sent, whose trace goes along.
func TestSpans(t *testing.T) {
	for _, binding := range bindings {
		for streams, method := range map[bool]string{false: "SendMessage", true: "SendStreamingMessage"} {
			t.Run(binding+" "+method, func(t *testing.T) {
				t.Parallel()
				p := newPeer(t, binding, streams)
				var spans agentstest.Spans
				c := agentstest.ServeWith(t, open(t, t.TempDir(), &peers.Peer{URL: p.server.URL}), nil, &agents.Options{Tracer: &spans})
				c.Do("say sun")
				all := spans.Take()
				if len(all) != 2 {
					t.Fatalf("%d spans, want a message and a task: %+v", len(all), all)
				}
				call, task := all[0], all[1]
				if call.Name != method || call.Failure != "" || call.Traceparent != task.Own || !call.Call || call.More["a2a.method.name"] != method {
					t.Errorf("%+v below %s, want %s", call, task.Own, method)
				}
				if call.More["a2a.message.id"] == "" || call.More["a2a.task.id"] == "" {
					t.Errorf("attributes %v", call.More)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				told := map[string]int{}
				for _, h := range p.headers {
					if v := h.Values("Traceparent"); len(v) == 1 {
						told[v[0]]++
					} else {
						t.Errorf("traceparent %q", v)
					}
				}
				if told[call.Own] != 1 {
					t.Errorf("the peer was told %v, want %s once", told, call.Own)
				}
			})
		}
	}
}

// TestFileIsTooLarge refuses a task whose files are too large to be sent, and a file that is gone.
func TestFileIsTooLarge(t *testing.T) {
	p := newPeer(t, "JSONRPC 1.0", true)
	a := open(t, t.TempDir(), &peers.Peer{URL: p.server.URL})
	for name, test := range map[string]struct {
		part *a2a.Part
		want string
	}{
		"too large": {&a2a.Part{Content: a2a.Raw(bytes.Repeat([]byte("x"), 17<<20)), Filename: "large"}, "too large"},
		"gone":      {a2a.NewFileURLPart("cortex-file:c/a/1", "image/png"), "the file cannot be sent"},
	} {
		task := &agents.Task{ID: a2a.TaskID(name), ContextID: "c", Message: &a2a.Message{ID: "m", Parts: a2a.ContentParts{test.part}}, Delivery: 1}
		for _, err := range a.Execute(context.Background(), task) {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if got := p.begins(); len(got) != 0 {
		t.Errorf("begun: %q", got)
	}
}

// TestMessageHasAKey sends a message. Its id is its Idempotency-Key, by which a server that knows the header has it once.
func TestMessageHasAKey(t *testing.T) {
	for _, binding := range []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
		for _, streams := range []bool{true, false} {
			p := newPeer(t, binding, streams)
			give(t.Context(), open(t, t.TempDir(), &peers.Peer{URL: p.server.URL}), given{id: "1", message: "m", text: "say sun"})
			var keys []string
			p.mu.Lock()
			for _, h := range p.headers {
				keys = append(keys, h.Values("Idempotency-Key")...)
			}
			p.mu.Unlock()
			if want := []string{p.all()[0].ID}; !slices.Equal(keys, want) {
				t.Errorf("%s, streaming %v: keys %q, want %q", binding, streams, keys, want)
			}
		}
	}
}
