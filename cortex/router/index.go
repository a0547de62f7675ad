package router

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Fits is the score from which an agent is considered to fit a request, for any set of agents.
const Fits = 0.5

// Bounds of what the cards of all agents take, in terms: one that no other card has takes about 100 bytes.
const (
	maxTermsOfAll = 8_000_000
	partOfAll     = 1000 // a card has at most one part in so many of what is left
	leastOfCard   = 256  // but so many in any case, which are those of its name and its first texts
)

// Options configures New. The zero value is valid.
type Options struct {
	Now      func() time.Time // the clock by which evidence decays; nil is time.Now
	MaxItems int              // maximum number of items of evidence of all agents together; 0 is 1,048,576
	MaxTerms int              // about the maximum number of terms of all cards together; 0 is 8,000,000
}

// Index finds the agents that fit a request. All methods are safe for concurrent use.
type Index struct {
	now  func() time.Time
	pool sync.Pool // of *scratch
	seed maphash.Seed

	writing sync.Mutex // held by Put, Remove and Learn, so that they parse texts without blocking readers
	reader  *reader

	mu      sync.RWMutex
	vocab   vocab
	agents  map[string]*agent
	slots   []*agent            // by slot; nil for a free slot
	free    []int32             // free slots
	byName  map[string][]string // ids by their lower-case form
	learned map[string][]Evidence
	items   int // of all evidence
	terms   int // of all cards

	maxItems, maxTerms int
}

// New returns an empty Index. o may be nil.
func New(o *Options) *Index {
	x := &Index{
		now: time.Now, seed: maphash.MakeSeed(), reader: newReader(), agents: map[string]*agent{}, byName: map[string][]string{},
		learned: map[string][]Evidence{}, maxItems: maxItems, maxTerms: maxTermsOfAll, vocab: vocab{ids: map[uint64]uint32{}, learned: map[uint32][]posting{}},
	}
	if o != nil && o.Now != nil {
		x.now = o.Now
	}
	if o != nil && o.MaxItems > 0 {
		x.maxItems = o.MaxItems
	}
	if o != nil && o.MaxTerms > 0 {
		x.maxTerms = o.MaxTerms
	}
	x.pool.New = func() any { return &scratch{reader: newReader()} }
	return x
}

// Put adds an agent, or replaces its card; a card with the same content costs next to nothing. Put neither retains nor modifies the card. Of a long card
// only the beginning is used; where there are very many terms of others already, also of one that is not so long.
func (x *Index) Put(id string, card *a2a.AgentCard) {
	x.writing.Lock()
	defer x.writing.Unlock()
	was, print := x.agents[id], x.print(card)
	left := x.maxTerms - x.terms
	if was != nil {
		left += was.room - was.left
	}
	room := min(max(left/partOfAll, leastOfCard), maxFeatures)
	if was != nil && was.print == print && (was.left > 0 || room <= was.room) { // when it comes again, there may be room for more of it
		return
	}
	c := readCard(x.reader, card, room)
	ls := x.lessons(was, c.skills, x.learned[id])
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hold(ls)
	x.drop(id)
	a := &agent{id: id, print: print, skills: c.skills, room: room, left: c.left}
	x.terms += room - c.left
	if n := len(x.free); n > 0 {
		a.slot = x.free[n-1]
		x.free = x.free[:n-1]
		x.slots[a.slot] = a
	} else {
		a.slot = int32(len(x.slots))
		x.slots = append(x.slots, a)
	}
	x.agents[id] = a
	x.name(id)
	x.fill(a, c)
	x.recall(a, ls)
}

// print returns a fingerprint of the parts of a card that readCard uses.
func (x *Index) print(card *a2a.AgentCard) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	add := func(s string) {
		maphash.WriteComparable(&h, len(s)) // otherwise "ab", "c" would equal "a", "bc"
		h.WriteString(s)
	}
	if card == nil {
		return h.Sum64()
	}
	add(card.Name)
	add(card.Description)
	for i := range card.Skills {
		s := &card.Skills[i]
		for _, list := range [][]string{{s.ID, s.Name, s.Description}, s.Tags, s.Examples} {
			maphash.WriteComparable(&h, len(list))
			for _, text := range list {
				add(text)
			}
		}
	}
	return h.Sum64()
}

// Remove removes an agent. Its evidence stays, for when it comes back; Learn without evidence removes that.
func (x *Index) Remove(id string) {
	x.writing.Lock()
	defer x.writing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(id)
}

// drop removes an agent, if it is in the index.
func (x *Index) drop(id string) {
	a := x.agents[id]
	if a == nil {
		return
	}
	x.forget(a)
	x.empty(a)
	x.terms -= a.room - a.left
	x.slots[a.slot] = nil
	x.free = append(x.free, a.slot)
	delete(x.agents, id)
	x.unname(id)
}

// Len returns the number of agents.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.agents)
}
