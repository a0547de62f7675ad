package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

const patience = time.Minute

// canary is what no span has without the switch for content.
const canary = "canary-in-the-words"

type decider struct{}

func (decider) Decide(_ context.Context, t *llm.Turn, _ func(string)) (*llm.Decision, error) {
	d := &llm.Decision{Model: "m1", Usage: llm.Usage{Input: 100, Output: 10}}
	switch {
	case len(t.Steps) > 0 && t.Steps[0].Tasks[0].State == a2a.TaskStateInputRequired:
		d.Kind, d.Say = llm.KindClarify, "how many?"
	case len(t.Steps) > 0:
		d.Kind, d.Say = llm.KindRespond, canary
	case len(t.Waiting) > 0:
		d.Kind, d.Delegations = llm.KindDelegate, []llm.Delegation{{ID: string(t.Waiting[0].ID), Agent: "alpha", Skill: "s", Task: t.User}}
	case strings.Contains(t.User, "one agent"):
		d.Kind, d.Delegations = llm.KindDelegate, []llm.Delegation{{ID: "1", Agent: "alpha", Skill: "s", Task: t.User}}
	case strings.Contains(t.User, "alone"):
		d.Kind, d.Say = llm.KindRespond, canary
	default:
		d.Kind, d.Delegations = llm.KindDelegate, []llm.Delegation{{ID: "1", Agent: "alpha", Skill: "s", Task: canary}, {ID: "2", Agent: "beta", Skill: "s", Task: canary}}
	}
	return d, nil
}

// world is a bus and a store that outlive orchestrators.
type world struct {
	t     *testing.T
	bus   transport.Transport
	store *memstore.Store

	policy *policy.Policy // of the next orchestrator
	log    lockedBuffer   // of all of them

	answered chan *transport.Event
	tasks    chan *transport.Event // of the agents
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// lines returns the lines with that message.
func (l *lockedBuffer) lines(t *testing.T, msg string) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.b.Bytes()) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m["msg"] == msg {
			all = append(all, m)
		}
	}
	return all
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, bus: memory.New(nil), store: memstore.New(), answered: make(chan *transport.Event, 100), tasks: make(chan *transport.Event, 100)}
	t.Cleanup(func() { w.bus.Close() })
	w.serve(transport.Live("", "c"), func(_ context.Context, e *transport.Event) error {
		if _, ok := e.Payload.(*a2a.Message); ok {
			w.answered <- e
		}
		return nil
	})
	for _, id := range []string{"alpha", "beta", "gamma"} {
		w.serve(transport.Inbox("", id), func(_ context.Context, e *transport.Event) error {
			w.tasks <- e
			return nil
		})
	}
	return w
}

func (w *world) serve(topic transport.Topic, h transport.Handler) {
	w.t.Helper()
	sub, err := w.bus.Subscribe(w.t.Context(), topic, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	go sub.Serve(w.t.Context(), h) //nolint:errcheck // ends with the test
}

// orchestrate runs an orchestrator with its own Traces, until stop is called.
func (w *world) orchestrate(e sdktrace.SpanExporter, content bool) (tr *Traces, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	load := func(ctx context.Context, k conversation.Key) iter.Seq2[*conversation.Entry, error] {
		return w.store.Load(ctx, k.Tenant, k.ContextID, 0)
	}
	tr = start(e, content, load, slog.New(slog.DiscardHandler))
	var there []prompt.Agent
	for _, id := range []string{"alpha", "beta", "gamma"} {
		there = append(there, prompt.Agent{ID: id, Seen: true, Card: &a2a.AgentCard{Name: id, Skills: []a2a.AgentSkill{{ID: "s", Name: "s"}}}})
	}
	o, err := cortex.New(cortex.Config{
		Transport: w.bus, Store: w.store, Decider: decider{}, Agents: func(string) []prompt.Agent { return there }, Observers: []cortex.Observer{tr},
		Logger: slog.New(LogHandler(slog.NewJSONHandler(&w.log, nil))), TaskTimeout: 300 * time.Millisecond, Policy: func() *policy.Policy { return w.policy },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	return tr, func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) say(id, text, parent string) { w.reply(id, text, parent, "") }

// reply says something that names the turn to which it replies.
func (w *world) reply(id, text, parent, to string) {
	w.t.Helper()
	m := &a2a.Message{ID: id, ContextID: "c", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
	if to != "" {
		m.Metadata = map[string]any{transport.MetaReplyTo: to}
	}
	err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: id, Time: time.Now(), From: "user", To: transport.Cortex, ContextID: "c", Traceparent: parent,
		Payload: m,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) done(e *transport.Event) { w.ends(e, a2a.TaskStateCompleted) }

func (w *world) ends(e *transport.Event, state a2a.TaskState) {
	w.t.Helper()
	err := w.bus.Publish(w.t.Context(), transport.Inbox("", transport.Cortex), &transport.Event{
		ID: "r-" + e.ID, Time: time.Now(), From: e.To, To: transport.Cortex, ContextID: e.ContextID, TaskID: e.TaskID,
		Payload: &a2a.Task{ID: e.TaskID, ContextID: e.ContextID, Status: a2a.TaskStatus{State: state}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func receive[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("nothing came: %s", what)
	}
	return v
}

// shape describes spans as "parent > name (error)", sorted.
func shape(spans tracetest.SpanStubs) (all []string) {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = s.Name
	}
	for _, s := range spans {
		parent := names[s.Parent.SpanID()]
		if parent == "" && s.Parent.HasSpanID() {
			parent = s.Parent.SpanID().String()
		}
		line := parent + " > " + s.Name
		if s.Status.Code == codes.Error {
			line += " (" + s.Status.Description + ")"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
)

// TestOneTrace takes a turn with two parallel tasks, one of which is tried again, from one orchestrator to the next in the middle.
func TestOneTrace(t *testing.T) {
	for _, parent := range []string{"", "00-" + parentTrace + "-" + parentSpan + "-01"} {
		t.Run(fmt.Sprintf("parent=%q", parent), func(t *testing.T) {
			w := newWorld(t)
			first := tracetest.NewInMemoryExporter()
			_, stop := w.orchestrate(first, false)
			w.say("m1", canary, parent)
			tasks := map[string]*transport.Event{}
			for range 2 {
				e := receive(t, w.tasks, "a task")
				tasks[e.To] = e
			}
			stop() // as when it is killed: its Traces export nothing
			if n := len(first.GetSpans()); n != 0 {
				t.Errorf("%d spans of an open turn are exported", n)
			}

			exporter := tracetest.NewInMemoryExporter()
			tr, stop := w.orchestrate(exporter, false)
			w.done(tasks["alpha"])
			again := receive(t, w.tasks, "beta's task for another agent, after its deadline")
			w.done(again)
			receive(t, w.answered, "the answer")
			stop()
			eventually(t, "the log is read", func() bool {
				if err := tr.provider.ForceFlush(t.Context()); err != nil {
					t.Fatal(err)
				}
				return len(exporter.GetSpans()) >= 6
			})
			spans := exporter.GetSpans()
			root := ""
			if parent != "" {
				root = parentSpan
			}
			want := []string{
				root + " > invoke_workflow cortex", "invoke_workflow cortex > chat m1", "invoke_workflow cortex > chat m1",
				"invoke_workflow cortex > invoke_agent alpha", "invoke_workflow cortex > invoke_agent beta (deadline)", "invoke_workflow cortex > invoke_agent " + again.To,
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, shape(spans)); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
			ids, of := map[string]string{}, map[string]bool{}
			for _, s := range spans {
				of[s.SpanContext.TraceID().String()] = true
				ids[s.SpanContext.SpanID().String()] = s.Name
				if s.EndTime.Before(s.StartTime) || s.StartTime.IsZero() {
					t.Errorf("%s goes from %v to %v", s.Name, s.StartTime, s.EndTime)
				}
				for _, a := range s.Attributes {
					if strings.Contains(a.Value.String(), canary) {
						t.Errorf("%s of %s has the words of people", a.Key, s.Name)
					}
				}
			}
			if len(of) != 1 || len(ids) != len(spans) {
				t.Errorf("traces %v and %d span ids of %d spans, want one trace and an id for each", slices.Collect(maps.Keys(of)), len(ids), len(spans))
			}
			if parent != "" && !of[parentTrace] {
				t.Errorf("the trace is %v, want that of the message", of)
			}
			for msg, want := range map[string]string{"decided": rootName, "task sent": "invoke_agent", "task tried again": "invoke_agent"} {
				lines := w.log.lines(t, msg)
				if len(lines) == 0 {
					t.Errorf("no line %q in the log", msg)
				}
				for _, line := range lines {
					id, _ := line["span_id"].(string)
					if of, _ := line["trace_id"].(string); of != spans[0].SpanContext.TraceID().String() || !strings.HasPrefix(ids[id], want) || line["context_id"] != "c" {
						t.Errorf("%v is of the span %q, want %s", line, ids[id], want)
					}
				}
			}
			for _, e := range []*transport.Event{tasks["alpha"], tasks["beta"], again} {
				sc, ok := parse(conversation.Trace{Parent: e.Traceparent})
				if !ok || !sc.IsSampled() || !of[sc.TraceID().String()] || ids[sc.SpanID().String()] != "invoke_agent "+e.To {
					t.Errorf("the task of %s has the traceparent %q, want that of its span", e.To, e.Traceparent)
				}
			}
			tr.Close()
		})
	}
}

// TestReply has a turn that asks, and one that replies. The task goes on in the second one.
func TestReply(t *testing.T) {
	turn := transport.TurnID("", "c", "user", "m1")
	const (
		one   = "> " + rootName
		two   = rootName + " > " + rootName
		asked = rootName + " > invoke_agent alpha"
		went  = rootName + " > chat m1"
		rule  = rootName + " > chat policy"
	)
	for name, c := range map[string]struct {
		confirm    bool
		text       string
		to, parent string // of the reply
		traces     int
		want       []string
	}{
		"it names the question":       {text: "three", to: turn, traces: 1, want: []string{one, two, asked, asked, went, went, went, went}},
		"only the decision says so":   {text: "three", traces: 2, want: []string{one, one, asked, asked, went, went, went, went}},
		"it has a trace of its own":   {text: "three", to: turn, parent: "00-" + parentTrace + "-" + parentSpan + "-01", traces: 2, want: []string{one, parentSpan + " " + one, asked, asked, went, went, went, went}},
		"a yes":                       {confirm: true, text: "yes", to: turn, traces: 1, want: []string{one, two, asked, went, went, rule}},
		"a yes that names no message": {confirm: true, text: "yes", traces: 1, want: []string{one, two, asked, went, went, rule}},
		"a no":                        {confirm: true, text: "no", traces: 1, want: []string{one, two, went, rule}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.confirm {
				var err error
				if w.policy, err = policy.Parse("policy.yaml", []byte("rules: [{agents: [alpha], confirm: true}]")); err != nil {
					t.Fatal(err)
				}
			}
			exporter := tracetest.NewInMemoryExporter()
			tr, stop := w.orchestrate(exporter, false)
			w.say("m1", "one agent", "")
			if !c.confirm {
				w.ends(receive(t, w.tasks, "the task"), a2a.TaskStateInputRequired)
			}
			receive(t, w.answered, "the question")
			if c.confirm { // a yes that names nothing counts only then
				eventually(t, "the question is delivered", func() bool {
					conv := conversation.NewConversation("", "c")
					for entry, err := range w.store.Load(t.Context(), "", "c", 0) {
						if err != nil || conv.Apply(entry) != nil {
							t.Fatal("the log cannot be read", err)
						}
					}
					return conv.Turns[0].Delivered
				})
			}
			before := time.Now()
			w.reply("m2", c.text, c.parent, c.to)
			var task *transport.Event
			if c.text != "no" {
				task = receive(t, w.tasks, "the task that goes on")
				w.done(task)
			}
			receive(t, w.answered, "the answer")
			stop()
			if err := tr.provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := exporter.GetSpans()
			slices.Sort(c.want)
			got := shape(spans)
			for i := range got {
				got[i] = strings.TrimSpace(got[i])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
			traces, first := map[trace.TraceID]bool{}, trace.SpanContext{}
			for _, s := range spans {
				traces[s.SpanContext.TraceID()] = true
				if s.Name == rootName && s.StartTime.Before(before) {
					first = s.SpanContext
				}
			}
			if len(traces) != c.traces {
				t.Errorf("%d traces, want %d", len(traces), c.traces)
			}
			if task == nil {
				tr.Close()
				return
			}
			sc, _ := parse(conversation.Trace{Parent: task.Traceparent})
			i := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.SpanContext.SpanID() == sc.SpanID() })
			if i < 0 || !sc.IsSampled() {
				t.Fatalf("the task has the traceparent %q, want that of a span in %v", task.Traceparent, shape(spans))
			}
			if s := spans[i]; s.Name != "invoke_agent alpha" || s.StartTime.Before(before) {
				t.Errorf("%s begins at %v, want a span that begins with the reply, after %v", s.Name, s.StartTime, before)
			}
			links := spans[i].Links
			switch {
			case c.traces == 1 && len(links) != 0:
				t.Errorf("links %v within a trace", links)
			case c.traces == 2 && (len(links) != 1 || links[0].SpanContext.SpanID() != first.SpanID() || links[0].SpanContext.TraceID() != first.TraceID()):
				t.Errorf("links %v, want one to the turn that asked, %v", links, first)
			}
			tr.Close()
		})
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !ok(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

// TestRatio checks that derived trace ids are evenly distributed for a sampler by ratio, and that failed turns are kept in spite of it.
func TestRatio(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
	exporter := tracetest.NewInMemoryExporter()
	tr := start(exporter, false, nil, slog.New(slog.DiscardHandler))
	const turns = 1000
	for i := range turns {
		oneTurn(t, tr, fmt.Sprint("c", i), "")
	}
	if err := tr.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(exporter.GetSpans()) / 2; n < turns/5 || n > turns*3/10 {
		t.Errorf("%d of %d turns are kept, want a quarter", n, turns)
	}
	exporter.Reset()
	for i := range 100 {
		oneTurn(t, tr, fmt.Sprint("f", i), "no model answers")
	}
	if err := tr.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(exporter.GetSpans()) / 2; n != 100 {
		t.Errorf("%d of 100 failed turns are kept", n)
	}
	tr.Close()
}

// oneTurn appends a turn of one entry, which a decision or a failure answers.
func oneTurn(t *testing.T, tr *Traces, contextID, failure string) {
	t.Helper()
	conv := conversation.NewConversation("", contextID)
	at := time.Unix(1e9, 0)
	entry := &conversation.Entry{
		Seq: 1, Time: at, Sent: at.Add(time.Millisecond), Turn: "t-" + contextID, Failure: failure, Life: "life",
		Cause: &transport.Event{ID: "m", From: "user", ContextID: contextID, Payload: &a2a.Message{ID: "m", ContextID: contextID, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("go")}}},
	}
	if failure == "" {
		entry.Decision = &llm.Decision{Kind: llm.KindRespond, Say: "yes", Model: "m1"}
	}
	if err := conv.Apply(entry); err != nil {
		t.Fatal(err)
	}
	tr.Appended(conv, entry)
}

// hanging is an exporter that exports nothing until it is released.
type hanging struct {
	once    sync.Once
	started chan struct{}
}

func (h *hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	h.once.Do(func() { close(h.started) })
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Shutdown(context.Context) error { return nil }

// TestHangingExporter goes on with turns while nothing is exported.
func TestHangingExporter(t *testing.T) {
	h := &hanging{started: make(chan struct{})}
	tr := start(h, false, nil, slog.New(slog.DiscardHandler))
	for i := range 3000 { // more than the queue takes
		oneTurn(t, tr, fmt.Sprint("c", i), "")
	}
	receive(t, h.started, "an export")
	oneTurn(t, tr, "last", "")
	tr.Close()
}

// TestContent has the words of people in spans only with the switch.
func TestContent(t *testing.T) {
	w := newWorld(t)
	exporter := tracetest.NewInMemoryExporter()
	tr, stop := w.orchestrate(exporter, true)
	w.say("m1", "alone", "")
	receive(t, w.answered, "the answer")
	stop()
	if err := tr.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, s := range exporter.GetSpans() {
		for _, a := range s.Attributes {
			if a.Key == outputMessages {
				found = a.Value.AsString()
			}
		}
	}
	if want := `[{"parts":[{"content":"` + canary + `","type":"text"}],"role":"assistant"}]`; found != want {
		t.Errorf("%s = %s, want %s", outputMessages, found, want)
	}
	tr.Close()
}

// TestWanted reads the standard environment.
func TestWanted(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x:4318/v1/traces"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, false},
	} {
		if got := Wanted(func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("Wanted(%v) = %v, want %v", c.env, got, c.want)
		}
	}
}
