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
	// LooseFor is how long a file may be unreferenced after its sender has stored the last piece of any file in the conversation. A client
	// publishes the message right after that, and tries for ten seconds. An agent may do other things first, so its task is checked as well.
	LooseFor = 15 * time.Minute
	// awayFor is the same for files stored before this process first looked, when perhaps no process was there to take the message.
	awayFor = time.Hour
)

// Orphans removes the unreferenced files of a tenant: those that no entry of their conversation's log, no waiting event and no dead letter
// refers to. Their sender was stopped before it published the message, or the message was refused. Orphans remembers what it has found
// about each file, so that it reads a log once for it. Its fields are set before the first use; its methods are not safe for concurrent use.
type Orphans struct {
	Store  storage.Store
	Bus    transport.FileKeeper
	Tenant string
	Now    func() time.Time // nil: time.Now
	// Dated returns when a piece was stored that the transport dates t, by the clock of Now; nil: t. They differ when the clock was set meanwhile.
	Dated func(t time.Time) time.Time

	began  time.Time
	seed   maphash.Seed
	spoken map[uint64]struct{} // hashes of files that a log refers to
	silent map[transport.Object]*silence
}

// silence is what is known about a file without a known reference.
type silence struct {
	active time.Time // when its last piece was stored
	due    time.Time // when to check it next
	bytes  int64     // 0 when it was not checked yet
}

// Loose is how much one sender has stored without a reference to it.
type Loose struct {
	Tenant string `json:"tenant,omitempty"`
	From   string `json:"from"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// Sweep lists the stored files, removes the orphans, and returns how much it removed, by sender. It sleeps between conversations for as long as
// the last one took, to leave the store to the turns. An interrupted sweep may be repeated.
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

// Left returns how much the last Sweep checked and kept although nothing refers to it yet, by sender.
func (f *Orphans) Left() []Loose {
	sizes := map[transport.Object]int64{}
	for o, s := range f.silent {
		if s.bytes > 0 {
			sizes[o] = s.bytes
		}
	}
	return LooseOf(sizes)
}

// LooseOf sums up files by their sender; sizes are in bytes.
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

// list returns the files without a known reference, by conversation, and those of them that are due.
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

// look checks the due files of one conversation, and calls removed for each file that it removes.
func (f *Orphans) look(ctx context.Context, contextID string, files, due []transport.Object, removed func(transport.Object, int64)) error {
	now := f.now()
	left, err := f.unspoken(ctx, contextID, due)
	if errors.Is(err, conversation.ErrDamaged) {
		f.wait(due, now) // its references cannot be read now, but perhaps later
		return nil
	}
	if err != nil || len(left) == 0 {
		return err
	}
	for _, o := range left {
		at, bytes, err := f.Bus.Stored(ctx, o)
		if errors.Is(err, transport.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		if f.Dated != nil {
			at = f.Dated(at)
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
		return now.Before(active.Add(LooseFor)) // its sender is still storing files there
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

// wait makes files due LooseFor after since.
func (f *Orphans) wait(files []transport.Object, since time.Time) {
	for _, o := range files {
		f.silent[o].due = since.Add(LooseFor)
	}
}

// unspoken returns those of files that the log of their conversation does not refer to.
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

// forgotten returns those of files that nothing refers to or will refer to. A reference moves from an agent with a task to the inbox and
// from there to the log, so forgotten checks these in the same order and cannot miss one on its way.
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
	now := f.now()
	awaited, err := f.Bus.Awaited(ctx, f.Tenant, contextID)
	if errors.Is(err, transport.ErrTooLarge) {
		f.wait(files, now) // what waits there refers to too many: the files of other conversations do not wait for that
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
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

// name adds the files that an event refers to.
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
