package cortex

import (
	"context"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// interrupts lets a Cancel end the decision that its turn waits for: in the inbox it waits behind that. It is safe for concurrent use.
type interrupts struct {
	mu       sync.Mutex
	deciding map[conversationKey]deciding // the decisions that run now
	early    map[interruptKey][]string    // who canceled turns about which nothing was being decided; the decision may begin yet
	order    []interruptKey               // of early, a ring that begins at next once full
	next     int
}

// maxEarly bounds the interrupts that are kept until their decision begins; most never do.
const maxEarly = 1024

// maxEarlyBy bounds by whom: not all may.
const maxEarlyBy = 8

type interruptKey struct {
	conversationKey
	turn string
}

type deciding struct {
	turn   string
	may    func(from string) bool // cancel it
	cancel context.CancelCauseFunc
}

func newInterrupts() *interrupts {
	return &interrupts{deciding: map[conversationKey]deciding{}, early: map[interruptKey][]string{}}
}

// begin lets a Cancel for turn, from whoever may, call cancel until done is called, at once when it was here before.
func (in *interrupts) begin(conv *conversation.Conversation, turn *conversation.Turn, may func(from string) bool, cancel context.CancelCauseFunc) (done func()) {
	k := conversationKey{conv.Tenant, conv.ContextID}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deciding[k] = deciding{turn.ID, may, cancel}
	if slices.ContainsFunc(in.early[interruptKey{k, turn.ID}], may) {
		cancel(errCanceled)
	}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.deciding, k)
	}
}

// end ends what is being decided about the turn that c names, or about any. One that names a turn is kept for a decision that is
// about to begin.
func (in *interrupts) end(k conversationKey, c *transport.Cancel, from string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	d, ok := in.deciding[k]
	if ok = ok && (c.Turn == "" || c.Turn == d.turn); ok && d.may(from) {
		d.cancel(errCanceled)
	}
	if ok || c.Turn == "" || transport.CheckID(c.Turn) != nil {
		return
	}
	turn := interruptKey{k, c.Turn}
	by, known := in.early[turn]
	if len(by) < maxEarlyBy && !slices.Contains(by, from) {
		in.early[turn] = append(by, from)
	}
	if known {
		return
	}
	if len(in.order) < maxEarly {
		in.order = append(in.order, turn)
		return
	}
	delete(in.early, in.order[in.next])
	in.order[in.next] = turn
	in.next = (in.next + 1) % maxEarly
}

// interrupt handles what comes on the orchestrator's control topic. A Cancel ends the decision that its turn waits for; the same
// Cancel comes through the inbox too, and cancels the turn's tasks. A Forget says what the store has no longer: its conversation, or
// what was learned of an agent.
func (o *Orchestrator) interrupt(_ context.Context, e *transport.Event) error {
	switch p := e.Payload.(type) {
	case *transport.Forget:
		if p.AgentID == "" {
			o.cache.drop(conversationKey{o.cfg.Tenant, e.ContextID})
			o.queue.withdraw(e.ContextID, "")
		}
		o.learner.forget(e, p)
	case *transport.Cancel:
		if p.TaskID == "" {
			o.interrupts.end(conversationKey{o.cfg.Tenant, e.ContextID}, p, e.From)
		}
	}
	return nil
}
