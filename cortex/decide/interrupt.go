package decide

import (
	"context"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// interrupts lets a Cancel end the decision that its turn waits for, although in the inbox the Cancel comes after that turn's event. It is safe for
// concurrent use.
type interrupts struct {
	mu       sync.Mutex
	deciding map[conversation.Key]deciding // the running decisions
	// Turns that somebody cancelled without a running decision; their decisions may begin later. By who did, so that nobody has those of others forgotten.
	early recent.Shares[string, interruptKey, struct{}]
	// Cancels that have been handled, by who sent them: their copies on the control topic may arrive later, and must not end the decision of a turn that
	// began since.
	handled recent.Shares[string, conversation.Key, []string]
}

// Interrupt ends the decision about the turn that the Cancel e names, or about any turn of the conversation, if its sender may cancel it. If it names a
// turn, it is remembered for a decision that begins later. It does nothing after Canceled.
func (m *Maker) Interrupt(k conversation.Key, e *transport.Event) { m.interrupts.end(k, e) }

// Canceled says that the Cancel e is being handled.
func (m *Maker) Canceled(k conversation.Key, e *transport.Event) {
	in := m.interrupts
	in.mu.Lock()
	defer in.mu.Unlock()
	ids, _ := in.handled.Get(e.From, k)
	if id := conversation.EventKey(e); !slices.Contains(ids, id) {
		ids = append(slices.Clone(ids[max(0, len(ids)-maxHandled+1):]), id)
	}
	in.handled.Put(e.From, k, ids, 1, maxEarly)
}

// maxHandled bounds the remembered Cancels of a sender in each conversation.
const maxHandled = 8

// maxEarly bounds the remembered turns of all senders; most of their decisions never begin.
const maxEarly = 1024

type interruptKey struct {
	conversation.Key
	turn string
}

type deciding struct {
	turn   string
	may    func(from string) bool // reports whether from may cancel the turn
	cancel context.CancelCauseFunc
}

// begin registers cancel to be called by a Cancel for turn from a permitted sender, until done is called. It calls cancel at once for a remembered
// Cancel.
func (in *interrupts) begin(conv *conversation.Conversation, turn *conversation.Turn, may func(from string) bool, cancel context.CancelCauseFunc) (done func()) {
	k := conv.Key()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deciding[k] = deciding{turn.ID, may, cancel}
	if slices.ContainsFunc(in.early.Owners(interruptKey{k, turn.ID}), may) {
		cancel(errCanceled)
	}
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.deciding, k)
	}
}

// end implements [Maker.Interrupt].
func (in *interrupts) end(k conversation.Key, e *transport.Event) {
	c, from := e.Payload.(*transport.Cancel), e.From
	in.mu.Lock()
	defer in.mu.Unlock()
	if ids, _ := in.handled.Get(from, k); slices.Contains(ids, conversation.EventKey(e)) {
		return
	}
	d, ok := in.deciding[k]
	if ok = ok && (c.Turn == "" || c.Turn == d.turn); ok && d.may(from) {
		d.cancel(errCanceled)
	}
	if ok || c.Turn == "" || transport.CheckID(c.Turn) != nil {
		return
	}
	in.early.Put(from, interruptKey{k, c.Turn}, struct{}{}, 1, maxEarly)
}

// mayCancelTurn returns a function that reports who may cancel turn.
func (m *Maker) mayCancelTurn(conv *conversation.Conversation, turn *conversation.Turn) func(from string) bool {
	owner, shared := conv.Owner, conv.Shared // copies: these values are immutable, the fold is not
	return func(from string) bool {
		return conversation.MayCancel(from, turn.From) &&
			(!m.cfg.Authenticated || from == turn.From || from == transport.Cortex || from == owner || slices.Contains(shared, from))
	}
}
