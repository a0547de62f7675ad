package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// ErrAsk is wrapped by the error of [Task.Ask] when the answer reports a failure; the error's text contains the answer.
var ErrAsk = errors.New("the request failed")

// Request is what a handler asks of others, see [Task.Ask].
type Request struct {
	// Text is the request in words. It may be empty when there are Parts or an Input.
	Text string
	// Parts are sent with it, such as files.
	Parts a2a.ContentParts
	// Agent is the agent to ask; with "" Cortex decides.
	Agent string
	// Skill is the id of a skill of the Agent.
	Skill string
	// Input is the structured input for the Agent, a value that encoding/json can encode, or nil.
	Input any
}

// Pauses before an unanswered request is sent again: the answer is sent in two ways, and may be lost in both.
const (
	askAgainMin = 30 * time.Second
	askAgainMax = 2 * time.Minute
)

// askNamespace is the name space of request ids, which are derived so that a task that is started again sends the same requests.
var askNamespace = uuid.MustParse("8f3cb0a6-2e0e-5f2a-9a34-6d1f3f1b7c10")

// Ask sends a request to Cortex, or to the agent that it names, and waits for the answer. The request belongs to the task's conversation: Cortex
// knows the chain of agents (it asks no agent on whose behalf the request is made, and limits the length of the chain), counts what is spent for
// the user's request, and ends the request by the task's latest deadline. While Ask waits it moves the deadline as [Task.Progress] does.
//
// Requests survive a restart: when a task is started again after its agent was lost, and sends the same request again, with the same text, parts
// and names, it gets the answer to the first one, and nobody does the work twice. (Equal requests of one task are matched in their order.)
//
// The error wraps [ErrAsk] when the answer reports a failure. When ctx ends first, Ask returns its cause and cancels the request, except when the
// agent stops, since the task will then ask again. Ask returns an error outside of [Serve].
func (t *Task) Ask(ctx context.Context, r Request) (*a2a.Message, error) {
	if t.agent == nil {
		return nil, errors.New("ask: the task was not given by Cortex")
	}
	m, err := t.request(r)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	a := t.agent
	answered, done := a.expect(m.ID)
	defer done()
	e := &transport.Event{
		ID: m.ID, From: a.id, To: transport.Cortex, Tenant: t.Tenant, ContextID: t.ContextID, TaskID: t.ID,
		Traceparent: t.Traceparent, Tracestate: t.Tracestate, Payload: m,
	}
	if t.Delivery > 1 { // it may have been sent before
		e.ID = transport.AgainID(m.ID, a.nextID())
	}
	beat := time.NewTicker(time.Second)
	defer beat.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for pause := askAgainMin; ; {
		select {
		case answer := <-answered:
			return read(answer)
		case <-beat.C:
			t.noteProgress()
		case <-again.C:
			e.Time = time.Now()
			if err := a.publish(ctx, transport.Inbox(t.Tenant, transport.Cortex), e); err != nil && ctx.Err() == nil {
				return nil, fmt.Errorf("ask: %w", err)
			}
			again.Reset(pause)
			pause, e.ID = min(2*pause, askAgainMax), transport.AgainID(m.ID, a.nextID())
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), ErrStopping) {
				t.cancelRequest(m.ID)
			}
			return nil, fmt.Errorf("ask: %w", context.Cause(ctx))
		}
	}
}

// request makes the message of r. Its id includes the number of equal requests of this task so far.
func (t *Task) request(r Request) (*a2a.Message, error) {
	m := &a2a.Message{
		ContextID: t.ContextID, Role: a2a.MessageRoleUser, ReferenceTasks: []a2a.TaskID{t.ID}, Metadata: map[string]any{transport.MetaTaskID: string(t.ID)},
	}
	if r.Text != "" {
		m.Parts = append(m.Parts, a2a.NewTextPart(r.Text))
	}
	m.Parts = append(m.Parts, r.Parts...)
	for _, k := range []string{transport.MetaHops, transport.MetaAncestors, transport.MetaDeadline} {
		if v, ok := t.Message.Metadata[k]; ok {
			m.Metadata[k] = v
		}
	}
	if latest := transport.MetaString(t.Message, transport.MetaLatest); latest != "" { // the deadline moves while the task waits
		m.Metadata[transport.MetaDeadline] = latest
	}
	if r.Agent == "" && (r.Skill != "" || r.Input != nil) {
		return nil, errors.New("a skill or an input needs an agent")
	}
	if r.Agent != "" {
		d := transport.Direct{Agent: r.Agent, Skill: r.Skill}
		if r.Input != nil {
			b, err := transport.EncodeValue(r.Input)
			if err != nil {
				return nil, fmt.Errorf("the input: %w", err)
			}
			d.Input = b
		}
		if err := d.Address(m); err != nil {
			return nil, err
		}
	}
	if len(m.Parts) == 0 {
		return nil, errors.New("nothing is asked")
	}
	b, err := transport.EncodeValue(m.Parts)
	if err != nil {
		return nil, fmt.Errorf("the parts: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{r.Agent, r.Skill, string(b)}, "\x00")))
	digest := hex.EncodeToString(sum[:])
	t.mu.Lock()
	if t.asked == nil {
		t.asked = map[string]int{}
	}
	t.asked[digest]++
	n := t.asked[digest]
	t.mu.Unlock()
	name := strings.Join([]string{t.Tenant, t.agent.id, string(t.ID), t.Message.ID, digest, strconv.Itoa(n)}, "\x00")
	m.ID = uuid.NewSHA1(askNamespace, []byte(name)).String()
	return m, nil
}

// read returns an answer, and the failure that it reports.
func read(answer *a2a.Message) (*a2a.Message, error) {
	if failed, _ := answer.Metadata[transport.MetaFailed].(bool); failed {
		return answer, fmt.Errorf("%w: %s", ErrAsk, cut(transport.Text(answer.Parts), maxErrorText))
	}
	return answer, nil
}

// cancelRequest cancels a request whose answer is no longer needed.
func (t *Task) cancelRequest(id string) {
	a := t.agent
	ctx, cancel := context.WithTimeout(a.sending, announceTimeout)
	defer cancel()
	e := &transport.Event{
		ID: id + ".cancel", Time: time.Now(), From: a.id, Tenant: t.Tenant, ContextID: t.ContextID,
		Traceparent: t.Traceparent, Tracestate: t.Tracestate,
		Payload: &transport.Cancel{Turn: transport.TurnID(t.Tenant, t.ContextID, a.id, id), Reason: "the agent that asked no longer waits for the answer"},
	}
	if err := a.tr.Publish(ctx, transport.Inbox(t.Tenant, transport.Cortex), e); err != nil {
		a.log.Warn("request not canceled", "task_id", t.ID, "err", err)
	}
}

// expect returns the channel for the answer to a request, and a function to call when the answer is no longer needed.
func (a *agent) expect(id string) (answered <-chan *a2a.Message, done func()) {
	ch := make(chan *a2a.Message, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if m, ok := a.answers.get(a2a.TaskID(id)); ok { // received before this run of the task asked again
		ch <- m
	}
	a.asks[id] = ch
	return ch, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asks, id)
	}
}

// answered handles the answer to a request of a task, of this instance or another one.
func (a *agent) answered(m *a2a.Message) {
	id := transport.MetaString(m, transport.MetaMessage)
	if id == "" {
		return
	}
	weight := weightOf(m)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers.put(a2a.TaskID(id), m, weight)
	if ch := a.asks[id]; ch != nil {
		select {
		case ch <- m:
		default: // it has arrived the other way
		}
	}
}
