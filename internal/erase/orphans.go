package erase

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// looseFor is how long nothing may speak of a file after its sender has stored the last piece of any in that conversation. What is between that
	// and the message is one publish, which a client tries for ten seconds. An agent may do other things first: its task is looked at.
	looseFor = 15 * time.Minute
	// awayFor is the same for what was stored before this process looked for the first time, when nobody may have been there to take the message.
	awayFor = time.Hour
)

// Orphans removes the files of a tenant of which nothing speaks: no entry of their conversation's log, no event that waits, and no dead letter. Whoever
// stored them was stopped before it could say what they were for, or what it said was refused. It remembers of each file what it has seen, so
// that a log is read once for it. Its fields are set before the first use; its methods are not safe for concurrent use.
type Orphans struct {
	Store  storage.Store
	Bus    transport.FileKeeper
	Tenant string
	Now    func() time.Time // nil: time.Now

	began  time.Time
	seed   maphash.Seed
	spoken map[uint64]struct{} // hashes of files of which something speaks for good
	silent map[transport.Object]*silence
}

// silence is what is known of a file of which nothing speaks, as far as is known.
type silence struct {
	active time.Time // when it was stored last
	due    time.Time // when to look at it
	bytes  int64     // 0 when it was not looked at yet
}

// Loose is how much somebody has stored of which nothing speaks.
type Loose struct {
	Tenant string `json:"tenant,omitempty"`
	From   string `json:"from"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// Sweep looks at what there is, removes what may go, and returns whose that was. Between two conversations it rests for as long as one took, so that
// others are not held up. Who is interrupted does it again.
func (f *Orphans) Sweep(ctx context.Context) ([]Loose, error) {
	now := f.now()
	if f.silent == nil {
		f.began, f.seed, f.silent = now, maphash.MakeSeed(), map[transport.Object]*silence{}
	}
	files, due, err := f.list(ctx, now)
	if err != nil {
		return nil, err
	}
	removed := map[transport.Object]int64{}
	for _, contextID := range slices.Sorted(maps.Keys(due)) {
		began := time.Now()
		err := f.look(ctx, contextID, files[contextID], due[contextID], func(o transport.Object, bytes int64) { removed[o] = bytes })
		if err != nil {
			return LooseOf(removed), err
		}
		select {
		case <-ctx.Done():
			return LooseOf(removed), ctx.Err()
		case <-time.After(time.Since(began)):
		}
	}
	return LooseOf(removed), nil
}

// Left returns whose files those are that the last Sweep has looked at and left, though nothing speaks of them yet.
func (f *Orphans) Left() []Loose {
	sizes := map[transport.Object]int64{}
	for o, s := range f.silent {
		if s.bytes > 0 {
			sizes[o] = s.bytes
		}
	}
	return LooseOf(sizes)
}

// LooseOf adds up files, given how many bytes each has, by who has stored them.
func LooseOf(sizes map[transport.Object]int64) []Loose {
	by := map[Loose]*Loose{}
	for o, bytes := range sizes {
		whose := Loose{Tenant: o.Tenant, From: o.From}
		l := by[whose]
		if l == nil {
			l = &Loose{Tenant: o.Tenant, From: o.From}
			by[whose] = l
		}
		l.Files++
		l.Bytes += bytes
	}
	all := make([]Loose, 0, len(by))
	for _, l := range by {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Loose) int { return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.From, b.From)) })
	return all
}

func (f *Orphans) now() time.Time {
	if f.Now != nil {
		return f.Now()
	}
	return time.Now()
}

// list returns the files of which nothing speaks as far as is known, by conversation, and those of them that are due.
func (f *Orphans) list(ctx context.Context, now time.Time) (files, due map[string][]transport.Object, err error) {
	spoken, silent := map[uint64]struct{}{}, map[transport.Object]*silence{}
	files, due = map[string][]transport.Object{}, map[string][]transport.Object{}
	for o, err := range f.Bus.Objects(ctx, f.Tenant) {
		if err != nil {
			return nil, nil, err
		}
		hash := maphash.Comparable(f.seed, o)
		if _, ok := f.spoken[hash]; ok {
			spoken[hash] = struct{}{}
			continue
		}
		is := f.silent[o]
		if is == nil {
			is = &silence{due: now}
		}
		silent[o] = is
		files[o.ContextID] = append(files[o.ContextID], o)
		if !now.Before(is.due) {
			due[o.ContextID] = append(due[o.ContextID], o)
		}
	}
	f.spoken, f.silent = spoken, silent
	return files, due, nil
}

// look looks at the files of one conversation that are due.
func (f *Orphans) look(ctx context.Context, contextID string, files, due []transport.Object, removed func(transport.Object, int64)) error {
	now := f.now()
	left, err := f.unspoken(ctx, contextID, due)
	if errors.Is(err, conversation.ErrDamaged) {
		f.wait(due, now) // what it speaks of is not known, and may be known again
		return nil
	}
	if err != nil || len(left) == 0 {
		return err
	}
	for _, o := range left {
		at, bytes, err := f.Bus.Stored(ctx, o)
		if errors.Is(err, transport.ErrNotFound) {
			continue // it is gone
		}
		if err != nil {
			return err
		}
		if at.Before(f.began) && f.began.Sub(at) < awayFor {
			at = f.began
		}
		f.silent[o].active, f.silent[o].bytes = at, bytes
	}
	newest := map[string]time.Time{} // by sender
	for _, o := range files {
		if is := f.silent[o]; is != nil && is.active.After(newest[o.From]) {
			newest[o.From] = is.active
		}
	}
	left = slices.DeleteFunc(left, func(o transport.Object) bool {
		active := newest[o.From]
		f.wait([]transport.Object{o}, active)
		return now.Before(active.Add(looseFor)) // its sender stores files there
	})
	if len(left) == 0 {
		return nil
	}
	left, err = f.forgotten(ctx, contextID, left)
	for _, o := range left {
		if err == nil {
			err = f.Bus.RemoveObject(ctx, o)
		}
		if err == nil {
			removed(o, f.silent[o].bytes)
			delete(f.silent, o)
		}
	}
	return err
}

// wait has files be looked at again when nothing has happened to them since.
func (f *Orphans) wait(files []transport.Object, since time.Time) {
	for _, o := range files {
		f.silent[o].due = since.Add(looseFor)
	}
}

// unspoken returns those of files of which the log of their conversation does not speak.
func (f *Orphans) unspoken(ctx context.Context, contextID string, files []transport.Object) ([]transport.Object, error) {
	named := map[transport.Object]bool{}
	if err := nameAll(named, f.Tenant, f.Store.Load(ctx, f.Tenant, contextID, 0)); err != nil {
		return nil, err
	}
	var left []transport.Object
	for _, o := range files {
		if named[o] {
			f.spoken[maphash.Comparable(f.seed, o)] = struct{}{}
			delete(f.silent, o)
		} else {
			left = append(left, o)
		}
	}
	return left, nil
}

// forgotten returns those of files of which nobody will speak. What speaks of a file goes from an agent that has a task to the inbox and from there to
// the log, so that they are looked at in the other order: last those behind which nothing comes any more.
func (f *Orphans) forgotten(ctx context.Context, contextID string, files []transport.Object) ([]transport.Object, error) {
	conv, err := storage.Load(ctx, f.Store, f.Tenant, contextID)
	if errors.Is(err, conversation.ErrDamaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	working := map[string]bool{} // agents
	for _, t := range conv.Tasks {
		working[t.Agent] = working[t.Agent] || !t.Phase.Over()
	}
	awaited, err := f.Bus.Awaited(ctx, f.Tenant, contextID)
	if err != nil {
		return nil, err
	}
	now := f.now()
	left := slices.DeleteFunc(files, func(o transport.Object) bool {
		kept := awaited[o] || working[o.From]
		if kept {
			f.wait([]transport.Object{o}, now)
		}
		return kept
	})
	if len(left) == 0 {
		return nil, nil
	}
	return f.unspoken(ctx, contextID, left)
}

func nameAll(named map[transport.Object]bool, tenant string, log iter.Seq2[*conversation.Entry, error]) error {
	for e, err := range log {
		if err != nil {
			return err
		}
		name(named, tenant, e.Cause)
	}
	return nil
}

// name notes the files of which an event speaks.
func name(named map[transport.Object]bool, tenant string, e *transport.Event) {
	if e == nil {
		return
	}
	note := func(parts a2a.ContentParts) {
		for _, p := range parts {
			if ref, err := transport.RefOf(tenant, p); err == nil {
				named[ref.Object] = true
			}
		}
	}
	message := func(m *a2a.Message) {
		if m != nil {
			note(m.Parts)
		}
	}
	switch p := e.Payload.(type) {
	case *a2a.Message:
		message(p)
	case *a2a.TaskStatusUpdateEvent:
		message(p.Status.Message)
	case *a2a.Task:
		message(p.Status.Message)
		for _, m := range p.History {
			message(m)
		}
		for _, a := range p.Artifacts {
			if a != nil {
				note(a.Parts)
			}
		}
	}
}
