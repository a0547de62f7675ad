package console

import (
	"slices"
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

// add remembers a message as the turn that it begins. Of a sender in a conversation it remembers as many as a page shows, since anybody may say anything
// anywhere until it is refused. When there are too many, whoever has most loses the oldest of theirs.
func (p *pending) add(contextID string, t *view.Turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string][]*view.Turn)
	}
	size := bytesOf(t)
	if size > pendingBytes {
		return
	}
	own := 0
	for _, old := range p.of[contextID] {
		if old.From == t.From {
			own++
		}
	}
	if own >= maxTurns {
		p.drop(contextID, slices.IndexFunc(p.of[contextID], func(old *view.Turn) bool { return old.From == t.From }))
	}
	full := func() bool { return p.n >= maxPending || p.b+size > pendingBytes }
	if full() {
		for id, all := range p.of {
			p.keep(id, all, func(old *view.Turn) bool { return t.Began.Sub(old.Began) < pendingLife })
		}
	}
	for full() {
		p.makeRoom()
	}
	p.of[contextID] = append(p.of[contextID], t)
	p.n++
	p.b += size
}

// makeRoom forgets the oldest message of whoever has most. The caller holds p.mu, and there is one.
func (p *pending) makeRoom() {
	const each = pendingBytes / maxPending // what a message counts beside its bytes
	has := map[string]int{}
	most := ""
	for _, all := range p.of {
		for _, t := range all {
			if has[t.From] += bytesOf(t) + each; has[t.From] > has[most] {
				most = t.From
			}
		}
	}
	in, at := "", -1
	var oldest time.Time
	for id, all := range p.of {
		if i := slices.IndexFunc(all, func(t *view.Turn) bool { return t.From == most }); i >= 0 && (at < 0 || all[i].Began.Before(oldest)) {
			in, at, oldest = id, i, all[i].Began
		}
	}
	p.drop(in, at)
}

// drop forgets one message. The caller holds p.mu.
func (p *pending) drop(contextID string, i int) {
	all := p.of[contextID]
	p.n, p.b = p.n-1, p.b-bytesOf(all[i])
	if p.of[contextID] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(p.of, contextID)
	}
}

// shown returns the pending turns that a page of a conversation shows to a person, as without does: the newest of their own, since nobody knows yet whether
// others may speak there.
func (p *pending) shown(contextID, who string, now time.Time, logged func(id string) bool) []*view.Turn {
	own := slices.DeleteFunc(p.without(contextID, now, logged), func(t *view.Turn) bool { return t.From != who })
	first, size := len(own), 0
	for ; first > 0; first-- {
		if size += bytesOf(own[first-1]); size > maxShown && first < len(own) {
			break
		}
	}
	return own[first:]
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
