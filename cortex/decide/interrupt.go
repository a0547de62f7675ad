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
}

// Interrupt ends the decision about the turn that c names, or about any turn of the conversation, if from may cancel it. If c names a turn, it is
// remembered for a decision that begins later.
func (m *Maker) Interrupt(k conversation.Key, c *transport.Cancel, from string) {
	m.interrupts.end(k, c, from)
}

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

// end ends the decision about the turn that c names, or about any turn. If c names a turn, it is remembered for a decision that begins later.
func (in *interrupts) end(k conversation.Key, c *transport.Cancel, from string) {
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
