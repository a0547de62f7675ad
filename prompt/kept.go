package prompt

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Kept holds what Render made of a [Turn], so that the turn is not rendered again for each later prompt: turns do not change once they are in a
// history. Its zero value is empty. It is safe for concurrent use; copies of a Turn share it.
type Kept struct{ made atomic.Pointer[rendered] }

// rendered are the messages of a turn without updates.
type rendered struct {
	by       *Templates
	form     form
	of       Turn
	messages []Message
}

// Equal reports true: what is kept is no part of a turn.
func (k *Kept) Equal(*Kept) bool { return true }

// get returns the messages of h, or nil when they are not known. Somebody may have changed h since: then its texts differ, or its lists are others,
// which are copied when they change.
func (k *Kept) get(t *Templates, f form, h *Turn) []Message {
	r := k.made.Load()
	if r == nil || r.by != t || r.form != f || r.of.User != h.User || r.of.Answer != h.Answer || r.of.Kind != h.Kind || r.of.Reason != h.Reason ||
		!same(r.of.Files, h.Files) || !same(r.of.Steps, h.Steps) {
		return nil
	}
	return r.messages
}

// same reports whether a and b are one list.
func same[E any](a, b []E) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// past returns the messages of a turn of the history. The caller must not change them.
func (t *Templates) past(h *Turn, f form) ([]Message, error) {
	plain := h.Kept != nil && h.Update.empty() && !slices.ContainsFunc(h.Steps, func(s Step) bool { return !s.Update.empty() })
	if plain {
		if all := h.Kept.get(t, f, h); all != nil {
			return all, nil
		}
	}
	p := new(Prompt)
	if err := t.turn(p, h.User, h.Files, &h.Update, h.Steps, f); err != nil {
		return nil, err
	}
	p.add(RoleAssistant, viewAnswer(h, f), nil)
	if plain {
		h.Kept.made.Store(&rendered{t, f, *h, p.Messages})
	}
	return p.Messages, nil
}

func (u *Update) empty() bool { return len(u.Joined)+len(u.Left) == 0 }

// lists remembers the latest instructions by the list of agents in them, which conversations share.
type lists struct {
	mu  sync.Mutex
	all []instructions // the one used last is the first
}

// maxLists is how many instructions are remembered.
const maxLists = 8

type instructions struct {
	in   Input // what they depend on
	text string
}

func (l *lists) get(in *Input) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.all, func(s instructions) bool {
		return same(s.in.Listed, in.Listed) && len(in.Listed) > 0 && s.in.Choice == in.Choice && s.in.MaxParallel == in.MaxParallel && s.in.ReasonFirst == in.ReasonFirst
	})
	if i < 0 {
		return "", false
	}
	found := l.all[i]
	copy(l.all[1:i+1], l.all[:i])
	l.all[0] = found
	return found.text, true
}

func (l *lists) put(in *Input, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == maxLists {
		l.all = l.all[:maxLists-1]
	}
	l.all = slices.Insert(l.all, 0, instructions{Input{Listed: in.Listed, Choice: in.Choice, MaxParallel: in.MaxParallel, ReasonFirst: in.ReasonFirst}, text})
}

// system returns the instructions for in.
func (t *Templates) system(in *Input) (string, error) {
	if text, ok := t.lists.get(in); ok {
		return text, nil
	}
	text, err := t.execute("system.tmpl", viewSystem(in))
	if err == nil && len(in.Listed) > 0 {
		t.lists.put(in, text)
	}
	return text, err
}
