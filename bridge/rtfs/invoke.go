package rtfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/nesting"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of the calls of Cortex's agents.
const (
	maxCalls  = 256 // at the same time
	maxKey    = 512 // bytes of an idempotency key
	maxOutput = 4 << 20
)

// anonymous is who calls without a name.
const anonymous = "anonymous"

// invocation is a call of one of Cortex's agents: a turn that is for this agent.
type invocation struct {
	b     *bridge
	begun time.Time
	keyed bool // and so may have been made before
	turn  client.Turn
}

// serveCall has an agent of Cortex do something. Failures have the status 200 as well, since the client library reads no others.
func (b *bridge) serveCall(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	ctx, ok := b.calls.Enter(r.Context(), r.RemoteAddr, kit.Host(r.RemoteAddr))
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many calls at the same time: make it again", http.StatusServiceUnavailable)
		return
	}
	kit.Arrived(ctx)
	defer kit.Leave(ctx)
	r = r.WithContext(ctx) // it ends when the call makes room for that of somebody else; the work goes on
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(b.times.answer + 10*time.Second))
	i := &invocation{b: b, begun: time.Now()}
	var m *client.Message
	err := b.inTurn(ctx, r.RemoteAddr, body, func() (err error) {
		m, err = i.messageOf(r, body)
		return err
	})
	if err != nil {
		writeJSON(w, i.failed("%v", err))
		return
	}
	i.turn = client.Turn{ContextID: m.ContextID, From: m.From, MessageID: m.ID}
	writeJSON(w, i.run(r, m))
}

// messageOf returns the message that a call says to Cortex. The same call of the same client with the same key is the same message. Keys are small numbers
// in some programs, and clients without a name are one: so another call is another message, and does not get what came of the first.
func (i *invocation) messageOf(r *http.Request, body []byte) (*client.Message, error) {
	b := i.b
	if nesting.Depth(body) > maxDepth || nesting.Weight(body) > maxHeavy {
		return nil, errors.New("the call is nested too deep, or has too many values")
	}
	c := &call{}
	if err := json.Unmarshal(body, c); err != nil {
		return nil, fmt.Errorf("the call is not what RTFS has: %s", jsonError(err))
	}
	id := r.PathValue("id")
	card := b.agent(id)
	if card == nil {
		return nil, fmt.Errorf("there is no agent %.100q, or not now", id)
	}
	skill, err := skillOf(card, c.Capability)
	if err != nil {
		return nil, err
	}
	name, _ := c.Metadata["client"].(string)
	from := "rtfs:" + cmp.Or(name, anonymous)
	if transport.CheckID(from) != nil {
		from = "rtfs:" + anonymous
	}
	word, _ := c.Metadata["request_id"].(string)
	word = cmp.Or(r.Header.Get("Idempotency-Key"), word)
	if len(word) > maxKey {
		return nil, fmt.Errorf("the idempotency key has %d bytes, at most %d are allowed", len(word), maxKey)
	}
	m := &client.Message{From: from, To: &transport.Direct{Agent: id, Skill: skill}, Metadata: map[string]any{transport.MetaOwn: true}}
	m.Parts = partsOf(c.Input, cmp.Or(c.Capability, id))
	if i.keyed = word != ""; !i.keyed {
		m.ContextID, m.ID = "rtfs-"+b.at.Client.NextID(), b.at.Client.NextID()
		return m, b.at.Client.Check(m)
	}
	said, err := json.Marshal(m.Parts)
	if err != nil {
		return nil, fmt.Errorf("the call is not what RTFS has: %s", jsonError(err))
	}
	m.ContextID, m.ID = "rtfs-"+space.ID("context", from, id, word, skill, string(said)), space.ID("message", from, id, word, skill, string(said))
	return m, b.at.Client.Check(m)
}

// partsOf returns an input as a text, or as data. otherwise is said when there is neither.
func partsOf(input json.RawMessage, otherwise string) a2a.ContentParts {
	var text string
	var object map[string]json.RawMessage
	switch {
	case len(input) == 0 || string(input) == "null":
		text = otherwise
	case json.Unmarshal(input, &text) == nil:
	case json.Unmarshal(input, &object) == nil && len(object) == 1 && json.Unmarshal(object["text"], &text) == nil:
	default:
		return a2a.ContentParts{a2a.NewDataPart(input)}
	}
	if strings.TrimSpace(text) == "" {
		text = otherwise
	}
	return a2a.ContentParts{a2a.NewTextPart(text)}
}

// agent returns the card of an agent of Cortex, or nil.
func (b *bridge) agent(id string) *a2a.AgentCard {
	all := b.at.Agents()
	i := slices.IndexFunc(all, func(c *a2a.AgentCard) bool {
		is, err := transport.AgentID(c.Name)
		return err == nil && is == id
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// skillOf returns the skill of an agent that a capability is: by its id, or by its dispatch key.
func skillOf(card *a2a.AgentCard, capability string) (string, error) {
	if capability == "" {
		return "", nil // the agent's only one, or its choice
	}
	abilities := agentcard.SpecOf(card).Abilities
	var ids []string
	for i := range card.Skills {
		id := agentcard.SkillID(&card.Skills[i])
		if capability == id || capability == abilities[id].DispatchKey {
			return id, nil
		}
		ids = append(ids, id)
	}
	return "", fmt.Errorf("the agent has no capability %.100q; it has %s", capability, shorten.Line(strings.Join(ids, ", "), maxReason))
}

// run says m, unless that was said before, and returns what has become of it after a while.
func (i *invocation) run(r *http.Request, m *client.Message) *outcome {
	at := i.b.at.Client
	asking := *at
	asking.Admit = func(_ string, size int) error { return i.b.pace.Admit(kit.Host(r.RemoteAddr), size) } // names are what clients choose
	asking.OnSend = func(e *transport.Event) {
		e.Traceparent, e.Tracestate = r.Header.Get("Traceparent"), r.Header.Get("Tracestate")
		e.Traceparent, e.Tracestate = e.Trace() // if it is one
	}
	ctx, end := context.WithTimeout(r.Context(), i.b.times.answer)
	defer end()
	turn := asking.Follow(ctx, m)
	switch {
	case !i.keyed: // it is a new one
	case i.isOpen(ctx):
		turn = at.Watch(ctx, i.turn)
	case at.Log != nil: // it may have been answered
		if said, ok, err := at.Log(ctx, i.turn); err == nil && ok {
			return i.outcome(context.WithoutCancel(r.Context()), said)
		}
	}
	for e, err := range turn {
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			return i.failed("Cortex cannot do it now: %v", err)
		}
		if said, ok := e.Payload.(*a2a.Message); ok {
			return i.outcome(context.WithoutCancel(r.Context()), said)
		}
	}
	return i.failed("still working")
}

// isOpen reports whether Cortex is at work on the same call already, which is then only waited for: it asks for nothing more of what its machine may ask.
func (i *invocation) isOpen(ctx context.Context) bool {
	conv, err := storage.Load(ctx, i.b.at.Store, i.b.at.Tenant, i.turn.ContextID)
	return err == nil && conv.Open(i.turn.From, i.turn.MessageID)
}

// metadata returns what Cortex calls the work.
func (i *invocation) metadata() map[string]any {
	if i.turn.ContextID == "" {
		return map[string]any{}
	}
	return map[string]any{"task_id": i.b.at.Client.ID(i.turn), "context_id": i.turn.ContextID}
}

func (i *invocation) failed(format string, args ...any) *outcome {
	no, why := false, fmt.Sprintf(format, args...)
	return &outcome{Success: &no, Output: json.RawMessage("null"), Error: &why, Took: time.Since(i.begun).Milliseconds(), Metadata: i.metadata()}
}

// outcome returns what is answered when Cortex has said something.
func (i *invocation) outcome(ctx context.Context, said *a2a.Message) *outcome {
	ctx, end := context.WithTimeout(ctx, callTime)
	defer end()
	text := shorten.Marked(transport.Text(said.Parts), maxOutput, "…")
	if is, _ := said.Metadata[transport.MetaFailed].(bool); is {
		return i.failed("%s", text)
	}
	at := i.b.at
	conv, err := storage.Load(ctx, at.Store, at.Tenant, i.turn.ContextID)
	if err == nil && conv.WaitsFor(at.Client.ID(i.turn)) != nil {
		return i.failed("the agent cannot go on without an answer: %s", text)
	}
	output, yes := quoted(text), true
	if data := i.data(ctx); data != nil {
		output = data
	}
	return &outcome{Success: &yes, Output: output, Took: time.Since(i.begun).Milliseconds(), Metadata: i.metadata()}
}

// data returns the data that the agent has given back; nil if it is none, or more than one piece.
func (i *invocation) data(ctx context.Context) (data json.RawMessage) {
	at := i.b.at
	for e, err := range at.Store.Load(ctx, at.Tenant, i.turn.ContextID, 0) {
		if err != nil {
			return nil
		}
		task, ok := e.Cause.Payload.(*a2a.Task)
		if !ok || task.Status.State != a2a.TaskStateCompleted {
			continue
		}
		for _, p := range kit.Parts(task) {
			if d, ok := p.Content.(a2a.Data); ok {
				text, err := transport.EncodeValue(d.Value)
				if err != nil || data != nil {
					return nil
				}
				data = text
			}
		}
	}
	return data
}

// serveHealth tells whether an agent of Cortex can be called.
func (b *bridge) serveHealth(w http.ResponseWriter, r *http.Request) {
	if b.agent(r.PathValue("id")) == nil {
		http.Error(w, "there is no such agent, or not now", http.StatusNotFound)
		return
	}
	writeJSON(w, map[string]any{"status": "ok"})
}

// serveCapabilities lists the capabilities of an agent of Cortex.
func (b *bridge) serveCapabilities(w http.ResponseWriter, r *http.Request) {
	a := b.agent(r.PathValue("id"))
	if a == nil {
		http.Error(w, "there is no such agent, or not now", http.StatusNotFound)
		return
	}
	c, err := shownCard(a, b.base(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, c.Capabilities)
}
