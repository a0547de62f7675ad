package a2a

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/together"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of readings, in bytes as estimated.
const (
	readBytes = 64 << 20 // of all that are kept
	readTexts = 8 << 20  // of the texts of tasks, in one reading: those of the tasks that began first are left out beyond it

	// What conversations take while they are read from their beginnings.
	readRoom      = 2 * readTexts // one of them
	mostBeginning = 512 << 20
	ownBeginning  = 64 << 20 // of a user
	mostLarge     = 4        // conversations that take more, since many tasks are open; one of each user
)

// readings keeps what was read of the conversations of the last calls, so that the next call reads only what is new. The log is the truth: a
// restart forgets them.
type readings struct {
	mu sync.Mutex
	of recent.Cache[string, *reading] // by caller and conversation; only what asks makes uses one

	asks  together.Asks[string, []*record]
	whole together.Asks[string, []*record] // see readWhole
}

// get returns the reading of a conversation, which may be empty.
func (k *readings) get(key string) *reading {
	k.mu.Lock()
	defer k.mu.Unlock()
	rd, ok := k.of.Get(key)
	if !ok {
		rd = &reading{}
		k.of.Put(key, rd, 1)
	}
	return rd
}

// put takes note of the size of a reading, and forgets the least recently used ones beyond readBytes.
func (k *readings) put(key string, rd *reading, size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.of.Put(key, rd, size); k.of.Size() > readBytes && k.of.Len() > 1; k.of.Drop() {
	}
}

// reading is a conversation as its caller sees it, up to an entry.
type reading struct {
	only map[a2a.TaskID]bool // the tasks whose texts are wanted; nil: all

	conv    *conversation.Conversation // nil: nothing was read
	before  conversation.Version       // of the entry before the last one
	records []*record                  // of the caller's tasks, in the order in which they began; those that were returned do not change
	byRoot  map[string]*record
	whole   int // the records before this one are brief
	texts   int // bytes of what records refer to
	kept    int // that, and what all records take themselves
}

// errOther is returned when a log is not that of the conversation that was read: that one was deleted.
var errOther = errors.New("another conversation")

// read reads the tasks of the caller in a conversation, in the order in which they began; with only, that one, if it is there. What they refer to is
// shared, and must not be changed. All streams of a caller that are woken at the same time share what one of them reads. Some may be brief: see
// [Server.readWhole].
func (s *Server) read(ctx context.Context, c *caller, contextID string, only a2a.TaskID) ([]*record, error) {
	key := c.user() + " " + contextID
	all, err := s.readings.asks.Get(ctx, key, func(ctx context.Context) ([]*record, error) {
		rd := s.readings.get(key)
		err := errOther
		if rd.conv != nil {
			err = rd.goOn(ctx, s, c, contextID)
		}
		if errors.Is(err, errOther) { // from the beginning
			rd.forget()
			leave, full := s.begins(ctx, c)
			if full != nil {
				return nil, full
			}
			defer leave()
			err = rd.goOn(ctx, s, c, contextID)
		}
		if err != nil {
			rd.forget()
			return nil, s.away(err)
		}
		s.readings.put(key, rd, rd.conv.Weight()+rd.kept)
		return rd.have(func(a2a.TaskID) bool { return true }), nil
	})
	if err != nil {
		return nil, err
	}
	return ownOf(all, func(id a2a.TaskID) bool { return only == "" || id == only }), nil
}

// ownOf returns copies of some records, which others have as well.
func ownOf(all []*record, wanted func(a2a.TaskID) bool) []*record {
	own := make([]*record, 0, len(all))
	for _, r := range all {
		if wanted(r.id) {
			own = append(own, new(*r))
		}
	}
	return own
}

// begins waits until a conversation can be read from its beginning, which takes memory, until leave is called.
func (s *Server) begins(ctx context.Context, c *caller) (leave func(), err error) {
	for !s.beginning.add(c.user(), readRoom) {
		if err := rest.For(ctx, answerPause); err != nil {
			return nil, err
		}
	}
	return func() { s.beginning.add(c.user(), -readRoom) }, nil
}

// readWhole reads a conversation once more for tasks that are brief in its reading, once for all streams of a caller that want them at the same time. Of many with large texts only those that began last are whole.
func (s *Server) readWhole(ctx context.Context, c *caller, contextID string, only ...a2a.TaskID) ([]*record, error) {
	all, err := s.readings.whole.Get(ctx, fmt.Sprint(c.user(), " ", contextID, " ", only), func(ctx context.Context) ([]*record, error) {
		leave, err := s.begins(ctx, c)
		if err != nil {
			return nil, err
		}
		defer leave()
		rd := &reading{only: make(map[a2a.TaskID]bool, len(only))}
		for _, id := range only {
			rd.only[id] = true
		}
		if err := rd.goOn(ctx, s, c, contextID); err != nil {
			return nil, s.away(err)
		}
		return rd.have(func(id a2a.TaskID) bool { return rd.only[id] }), nil
	})
	return ownOf(all, func(a2a.TaskID) bool { return true }), err
}

// have returns the records of some tasks.
func (rd *reading) have(wanted func(a2a.TaskID) bool) (all []*record) {
	for _, r := range rd.records {
		if wanted(r.id) {
			own := new(*r)
			own.version = rd.conv.Version
			all = append(all, own)
		}
	}
	return all
}

func (rd *reading) forget() {
	rd.conv, rd.before, rd.records, rd.byRoot, rd.whole, rd.texts, rd.kept = nil, 0, nil, nil, 0, 0, 0
}

// goOn reads the entries that are new. It also reads the last one that is known, to see that the log still has it: otherwise it returns errOther.
func (rd *reading) goOn(ctx context.Context, s *Server, c *caller, contextID string) error {
	if rd.conv == nil {
		rd.conv, rd.byRoot = conversation.NewConversation(c.Tenant, contextID), map[string]*record{}
	}
	known, fresh, large := rd.conv.Version == 0, true, false
	for e, err := range s.cfg.Store.Load(ctx, c.Tenant, contextID, rd.before) {
		switch {
		case err != nil:
			return err
		case !known:
			if e.Version != rd.conv.Version {
				return errOther
			}
			known = true
			continue
		case fresh:
			fresh = false
			rd.own()
		}
		last := rd.conv.Version
		if err := rd.conv.Apply(e); err != nil {
			return err
		}
		rd.before = last
		rd.add(c, contextID, e)
		if !large && rd.conv.Weight()+rd.texts > readRoom {
			for large = true; !s.large.add(c.user(), 1); {
				if err := rest.For(ctx, answerPause); err != nil {
					return err
				}
			}
			defer s.large.add(c.user(), -1)
		}
	}
	if !known {
		return errOther
	}
	return nil
}

// own replaces the records that may change by copies.
func (rd *reading) own() {
	rd.records = slices.Clone(rd.records)
	for _, r := range rd.records {
		if !r.settled() {
			rd.replace(r)
		}
	}
}

// replace replaces a record by a copy, and returns that.
func (rd *reading) replace(r *record) *record {
	own := new(*r)
	own.exchanges, own.changes, own.waiting = slices.Clone(r.exchanges), slices.Clip(r.changes), slices.Clone(r.waiting)
	for i, x := range own.exchanges {
		own.exchanges[i] = new(*x)
	}
	rd.records[slices.Index(rd.records, r)] = own
	word, _ := rootOf(r.first().id)
	rd.byRoot[string(word)] = own
	return own
}

// add takes note of what the last entry of the conversation means for the tasks.
func (rd *reading) add(c *caller, contextID string, e *conversation.Entry) {
	if m, ok := transport.Request(e.Cause); ok && e.Cause.From == c.user() {
		if word, ok := rootOf(e.Cause.ID); ok {
			r := rd.byRoot[string(word)]
			switch {
			case r == nil:
				place, _ := c.placeOf(contextID)
				r = &record{id: c.taskID(place, word), place: contextID}
				rd.byRoot[string(word)] = r
				rd.records = append(rd.records, r)
			case r.settled():
				r = rd.replace(r)
			}
			turn := c.ID(client.Turn{ContextID: contextID, From: c.user(), MessageID: e.Cause.ID})
			r.exchanges = append(r.exchanges, &exchange{id: e.Cause.ID, turn: turn, said: m, at: e.Time})
			b, _ := e.Cause.AppendJSON(nil) // an event that was read can be written
			r.size += 2 * len(b)
			rd.grow(2 * len(b))
			rd.kept += recordSize
		}
	}
	for _, r := range rd.records {
		if r.settled() {
			continue
		}
		was := r.size
		r.apply(rd.conv, e, c.user())
		rd.grow(r.size - was)
		if r.brief || rd.only != nil && !rd.only[r.id] {
			rd.shorten(r) // what is new of it
		}
	}
	for ; rd.texts > readTexts && rd.whole < len(rd.records)-1; rd.whole++ {
		if r := rd.records[rd.whole]; !r.brief {
			rd.shorten(rd.replace(r))
		}
	}
}

// grow takes note of what records refer to in addition, in bytes.
func (rd *reading) grow(n int) { rd.texts, rd.kept = rd.texts+n, rd.kept+n }

// shorten leaves out the texts of a task.
func (rd *reading) shorten(r *record) {
	if r.brief && r.size == 0 {
		return
	}
	rd.grow(-r.size)
	r.brief, r.size = true, 0
	for _, x := range r.exchanges {
		said := &a2a.Message{ID: x.said.ID, Role: x.said.Role}
		if chosen := transport.MetaString(x.said, metaContext); chosen != "" {
			said.Metadata = map[string]any{metaContext: chosen}
		}
		x.said, x.artifacts = said, nil
		if x.answer != nil {
			x.answer = &a2a.Message{ID: x.answer.ID, Role: x.answer.Role}
		}
	}
}

// recordSize is what a record takes besides its texts, approximately, in bytes.
const recordSize = 512
