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
	// Who cancelled turns without a running decision; their decisions may begin later.
	early recent.Cache[interruptKey, []string]
	// Cancels that have been handled: their copies on the control topic may arrive later, and must not end the decision of a turn that began since.
	handled recent.Cache[conversation.Key, []string]
}

// Interrupt ends the decision about the turn that the Cancel e names, or about any turn of the conversation, if its sender may cancel it. If it names a
// turn, it is remembered for a decision that begins later. It does nothing after Canceled.
func (m *Maker) Interrupt(k conversation.Key, e *transport.Event) { m.interrupts.end(k, e) }

// Canceled says that the Cancel e is being handled.
func (m *Maker) Canceled(k conversation.Key, e *transport.Event) {
	in := m.interrupts
	in.mu.Lock()
	defer in.mu.Unlock()
	ids, _ := in.handled.Get(k)
	if id := conversation.EventKey(e); !slices.Contains(ids, id) {
		ids = append(slices.Clone(ids[max(0, len(ids)-maxHandled+1):]), id)
	}
	for in.handled.Put(k, ids, 1); in.handled.Len() > maxEarly; in.handled.Drop() {
	}
}

// maxHandled bounds the remembered Cancels of each conversation.
const maxHandled = 8

// maxEarly bounds the remembered turns; most of their decisions never begin.
const maxEarly = 1024

// maxEarlyBy bounds the remembered senders of each turn, since not all of them may cancel it.
const maxEarlyBy = 8

type interruptKey struct {
	conversation.Key
	turn string
}

type deciding struct {
	turn   string
	may    func(from string) bool // reports whether from may cancel the turn
	cancel context.CancelCauseFunc
}

func newInterrupts() *interrupts {
	return &interrupts{deciding: map[conversation.Key]deciding{}}
}

// begin registers cancel to be called by a Cancel for turn from a permitted sender, until done is called. It calls cancel at once for a remembered
// Cancel.
func (in *interrupts) begin(conv *conversation.Conversation, turn *conversation.Turn, may func(from string) bool, cancel context.CancelCauseFunc) (done func()) {
	k := conv.Key()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deciding[k] = deciding{turn.ID, may, cancel}
	if by, _ := in.early.Get(interruptKey{k, turn.ID}); slices.ContainsFunc(by, may) {
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
	if ids, _ := in.handled.Get(k); slices.Contains(ids, conversation.EventKey(e)) {
		return
	}
	d, ok := in.deciding[k]
	if ok = ok && (c.Turn == "" || c.Turn == d.turn); ok && d.may(from) {
		d.cancel(errCanceled)
	}
	if ok || c.Turn == "" || transport.CheckID(c.Turn) != nil {
		return
	}
	turn := interruptKey{k, c.Turn}
	if by, _ := in.early.Get(turn); len(by) < maxEarlyBy && !slices.Contains(by, from) {
		for in.early.Put(turn, append(by, from), 1); in.early.Len() > maxEarly; in.early.Drop() {
		}
	}
}

// mayCancelTurn returns a function that reports who may cancel turn.
func (m *Maker) mayCancelTurn(conv *conversation.Conversation, turn *conversation.Turn) func(from string) bool {
	owner, shared := conv.Owner, conv.Shared // copies: these values are immutable, the fold is not
	return func(from string) bool {
		return conversation.MayCancel(from, turn.From) &&
			(!m.cfg.Authenticated || from == turn.From || from == transport.Cortex || from == owner || slices.Contains(shared, from))
	}
}
