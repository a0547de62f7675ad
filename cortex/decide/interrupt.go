package decide

import (
	"context"
	"slices"
	"sync"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// interrupts lets a Cancel end the decision that its turn waits for: in the inbox it waits behind that. It is safe for concurrent use.
type interrupts struct {
	mu       sync.Mutex
	deciding map[conversation.Key]deciding // the decisions that run now
	// Who canceled turns about which nothing was being decided; the decision may begin yet.
	early recent.Cache[interruptKey, []string]
}

// Interrupt ends what is being decided about the turn that c names in a conversation, or about any, if from may cancel it. One that names
// a turn is kept for a decision that is about to begin.
func (m *Maker) Interrupt(k conversation.Key, c *transport.Cancel, from string) {
	m.interrupts.end(k, c, from)
}

// maxEarly bounds the interrupts that are kept until their decision begins; most never do.
const maxEarly = 1024

// maxEarlyBy bounds by whom: not all may.
const maxEarlyBy = 8

type interruptKey struct {
	conversation.Key
	turn string
}

type deciding struct {
	turn   string
	may    func(from string) bool // cancel it
	cancel context.CancelCauseFunc
}

func newInterrupts() *interrupts {
	return &interrupts{deciding: map[conversation.Key]deciding{}}
}

// begin lets a Cancel for turn, from whoever may, call cancel until done is called, at once when it was here before.
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

// end ends what is being decided about the turn that c names, or about any. One that names a turn is kept for a decision that is
// about to begin.
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

// mayCancelTurn returns who may cancel turn at this time.
func (m *Maker) mayCancelTurn(conv *conversation.Conversation, turn *conversation.Turn) func(from string) bool {
	owner, shared := conv.Owner, conv.Shared // what they are is not changed, the fold is
	return func(from string) bool {
		return conversation.MayCancel(from, turn.From) &&
			(!m.cfg.Authenticated || from == turn.From || from == transport.Cortex || from == owner || slices.Contains(shared, from))
	}
}
