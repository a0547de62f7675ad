package console

import (
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// Bounds of what is remembered of messages that are in no log yet.
const (
	maxPending   = 4096
	pendingBytes = 32 << 20 // of all their texts and files
	pendingLife  = 30 * time.Minute
)

// pending has the messages that were sent by this process and are in no log yet: a message gets there with the first decision about it, which may take
// long. It only lets pages show them at once; what it forgets comes with the log. It is safe for concurrent use.
type pending struct {
	mu sync.Mutex
	of map[string][]*view.Turn // by conversation
	n  int
	b  int // bytes
}

// bytesOf returns how many bytes a message keeps.
func bytesOf(t *view.Turn) int {
	n := len(t.Text)
	for _, p := range t.Files {
		n += len(p.Raw())
	}
	return n
}

// add remembers a message as the turn that it begins.
func (p *pending) add(contextID string, t *view.Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string][]*view.Turn)
	}
	size := bytesOf(t)
	full := func() bool { return p.n >= maxPending || p.b+size > pendingBytes }
	if full() {
		for id, all := range p.of {
			p.keep(id, all, func(old *view.Turn) bool { return t.Began.Sub(old.Began) < pendingLife })
		}
	}
	if full() {
		return
	}
	p.of[contextID] = append(p.of[contextID], t)
	p.n++
	p.b += size
}

// keep forgets the turns of a conversation that are not wanted. The caller holds p.mu.
func (p *pending) keep(contextID string, all []*view.Turn, wanted func(*view.Turn) bool) {
	var rest []*view.Turn
	for _, t := range all {
		if wanted(t) {
			rest = append(rest, t)
		} else {
			p.b -= bytesOf(t)
		}
	}
	p.n -= len(all) - len(rest)
	if p.of[contextID] = rest; len(rest) == 0 {
		delete(p.of, contextID)
	}
}

// without returns the pending turns of a conversation after forgetting those that its log has, and those that are too old.
func (p *pending) without(contextID string, now time.Time, logged func(id string) bool) []*view.Turn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.of[contextID]; len(all) > 0 {
		p.keep(contextID, all, func(t *view.Turn) bool { return !logged(t.ID) && now.Sub(t.Began) < pendingLife })
	}
	return append([]*view.Turn(nil), p.of[contextID]...)
}
