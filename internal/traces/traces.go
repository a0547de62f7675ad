package traces

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxUnread  = 256             // answered turns whose logs wait to be read
	closeTime  = 2 * time.Second // for the last spans to be exported
	complained = time.Minute     // between two log lines about spans that are lost
)

// Load reads the log of a conversation from its beginning, as storage.Store.Load does.
type Load func(ctx context.Context, key conversation.Key) iter.Seq2[*conversation.Entry, error]

// Traces makes spans. It is a Tracer of an orchestrator (see package cortex), and safe for concurrent use.
type Traces struct {
	log      *slog.Logger
	load     Load
	recorder *recorder
	probe    trace.Tracer // with the sampler of the environment, and without an exporter
	emitter  trace.Tracer
	provider *sdktrace.TracerProvider
	unread   chan finished
	lost     rate.Sometimes
	slow     *slowest
	agents   *Agents

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	work sync.WaitGroup
}

// start returns Traces that export to e. content adds the words of people and models.
func start(e sdktrace.SpanExporter, content bool, load Load, log *slog.Logger, options ...sdktrace.TracerProviderOption) *Traces {
	options = append(slices.Clip(options), sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(e)))
	ids := sdktrace.WithIDGenerator(generator{})
	provider := sdktrace.NewTracerProvider(append(slices.Clip(options), ids, sdktrace.WithSampler(sdktrace.AlwaysSample()))...)
	t := &Traces{
		log: log, load: load, recorder: newRecorder(content), unread: make(chan finished, maxUnread), slow: new(slowest),
		probe: sdktrace.NewTracerProvider(ids).Tracer(scope), emitter: provider.Tracer(scope), provider: provider, agents: newAgents(options...),
		lost: rate.Sometimes{First: 1, Interval: complained},
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.work.Go(t.read)
	return t
}

// scope is the name of the instrumentation.
const scope = "github.com/cortex-orchestrator/cortex"

// Close exports what is left, for at most two seconds. It is called once, after the last entry.
func (t *Traces) Close() {
	t.end()
	t.work.Wait()
	shutDown(t.provider, t.log)
}

func shutDown(p *sdktrace.TracerProvider, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		log.Warn("the last spans are not exported", "err", err)
	}
}

// Agents makes the spans of agents in this process. They are exported by t until that is closed.
func (t *Traces) Agents() *Agents { return t.agents }

// Appended records an entry, and hands the spans of the turns that it answered to the exporter. It does not wait for the exporter.
func (t *Traces) Appended(conv *conversation.Conversation, entry *conversation.Entry) {
	for _, f := range t.recorder.appended(conv, entry) {
		if f.spans != nil {
			t.emit(f)
			continue
		}
		select {
		case t.unread <- f:
		default:
			t.lost.Do(func() { t.log.Warn("turns have no trace: too many logs are to be read after a restart") })
		}
	}
}

// ID returns the trace id that a turn has when there are traces. It follows from the log.
func ID(conv *conversation.Conversation, turn *conversation.Turn) string {
	return placeOf(conv, turn).parent.TraceID().String()
}

// Trace returns the trace context of an event that conv sends: the attempt at its task, or its turn.
func (t *Traces) Trace(conv *conversation.Conversation, e *transport.Event) conversation.Trace {
	task := conv.Tasks[e.TaskID]
	var turn *conversation.Turn
	if task != nil {
		turn = conv.Turn(task.Turn)
	} else if m, ok := e.Payload.(*a2a.Message); ok {
		turn = conv.Turn(transport.MetaString(m, transport.MetaTurn))
	}
	if turn == nil {
		return conversation.Trace{}
	}
	at := placeOf(conv, turn)
	of := at.parent.TraceID()
	span := rootID(of, turn.ID)
	if task != nil && task.SentSeq != 0 {
		span = attemptOf(task).id(of)
	}
	sc := within(at.parent, of, span)
	if sampled := t.sampled(at); sampled != sc.IsSampled() {
		sc = sc.WithTraceFlags(sc.TraceFlags().WithSampled(sampled))
	}
	return format(sc)
}

// sampled reports what the sampler of the environment says of a turn.
func (t *Traces) sampled(at place) bool {
	return t.begin(t.probe, at.basis, trace.SpanID{1}, rootName).SpanContext().IsSampled()
}

// begin starts a span with planned ids, below parent if that has a span.
func (t *Traces) begin(by trace.Tracer, parent trace.SpanContext, id trace.SpanID, name string, o ...trace.SpanStartOption) trace.Span {
	ctx := context.WithValue(t.ctx, plannedKey{}, planned{parent.TraceID(), id})
	if parent.HasSpanID() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, s := by.Start(ctx, name, o...) //nolint:spancheck // the caller ends it, or drops one that nobody exports
	return s
}

// emit hands the spans of a turn to the exporter if it is sampled, has failed, or was slow.
func (t *Traces) emit(f finished) {
	root := f.spans[len(f.spans)-1]
	slow := t.slow.note(root.end.Sub(root.start))
	keep := f.failed || slow || slices.ContainsFunc(f.spans, func(s span) bool { return s.failure != "" })
	if !keep && !t.sampled(f.at) {
		return
	}
	for _, s := range f.spans {
		parent := f.at.parent
		if s.id != root.id {
			parent = within(parent, parent.TraceID(), s.parent)
		}
		out := t.begin(t.emitter, parent, s.id, s.name, trace.WithSpanKind(s.kind), trace.WithTimestamp(s.start), trace.WithAttributes(s.attributes...))
		if s.link.IsValid() {
			out.AddLink(trace.Link{SpanContext: s.link})
		}
		if s.failure != "" {
			out.SetAttributes(attribute.String(errorType, s.failure))
			out.SetStatus(codes.Error, s.failure)
		}
		out.End(trace.WithTimestamp(s.end))
	}
}

// read makes the spans of turns that began elsewhere from their logs, until t is closed.
func (t *Traces) read() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case f := <-t.unread:
			whole, err := t.replay(f)
			switch {
			case err != nil && t.ctx.Err() == nil:
				t.lost.Do(func() {
					t.log.Warn("a turn has no trace: its log cannot be read", "context_id", f.key.ContextID, "err", err)
				})
			case whole.spans != nil:
				t.emit(whole)
			}
		}
	}
}

// replay reads the log up to the entry that answered f.
func (t *Traces) replay(f finished) (finished, error) {
	conv := conversation.NewConversation(f.key.Tenant, f.key.ContextID)
	rec := newRecorder(t.recorder.content)
	for entry, err := range t.load(t.ctx, f.key) {
		if err != nil {
			return finished{}, err
		}
		if err := conv.Apply(entry); err != nil {
			return finished{}, err
		}
		for _, over := range rec.appended(conv, entry) {
			if over.turn == f.turn {
				return over, nil
			}
		}
	}
	return finished{}, nil
}
