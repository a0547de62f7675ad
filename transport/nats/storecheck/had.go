package storecheck

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// fullBlock is the size at which the server begins a new block of a work queue or of files.
const fullBlock = 4 << 20

// Had is what a server had of a stream.
type Had struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first"` // sequence
	Place
}

// Place is where the blocks of a stream ended.
type Place struct {
	Blocks int    `json:"blocks,omitempty"` // number of blocks
	Block  uint32 `json:"block,omitempty"`  // index of the last one
	Size   int64  `json:"size,omitempty"`   // of the last block, in bytes
	End    []byte `json:"end,omitempty"`    // the last bytes of that block, a checksum
}

// Placed returns where the blocks of a stream, named "account/stream", end in the store in dir. A server may have the store open; what it writes
// after that place, it writes later.
func Placed(dir, name string) (p Place, err error) {
	root, err := streamDir(dir, name)
	if err != nil {
		return p, err
	}
	entries, err := readFolder(filepath.Join(root, messagesDir))
	if err != nil {
		return p, err
	}
	indices := blockIndices(namesOf(entries))
	if len(indices) == 0 {
		return p, nil
	}
	p.Blocks, p.Block = len(indices), slices.Max(indices)
	f, size, err := open(filepath.Join(root, filepath.FromSlash(blockFileOf(p.Block))))
	if err != nil || size < hashSize {
		return p, unlessGone(err)
	}
	defer f.Close()
	p.Size, p.End = size, make([]byte, hashSize)
	_, err = f.ReadAt(p.End, size-hashSize)
	return p, err
}

// sequel is what became of a stream after the state that the memory has. A server that removes a message appends a record of that, except for the
// last message of a block, whose file it removes. It rewrites a full block when more than half of it is obsolete.
type sequel struct {
	had     Had
	removed []uint64 // sequences
	holding int      // how many of the remembered blocks still have messages
	held    uint32   // index of the last such block
	stored  uint64   // bytes

	index    uint32 // of the last block written since
	last     uint64 // sequence of the last message
	rewrites bool   // a block written since was rewritten or removed, with its records of removals
}

// begin adds a block; blocks come in order.
func (q *sequel) begin(index uint32, b []byte, end bool) {
	if index < q.had.Block {
		return
	}
	next := q.had.Block
	if q.index > 0 {
		next = q.index + 1
	}
	at := q.had.Size
	moved := index == q.had.Block && at >= hashSize && (int64(len(b)) < at || !bytes.Equal(b[at-hashSize:at], q.had.End))
	q.rewrites = q.rewrites || index != next || moved || !end && len(b) < fullBlock/2
	q.index = index
}

// see adds a record of a block; records come in order.
func (q *sequel) see(index uint32, r *Record) {
	q.stored += uint64(len(r.bytes))
	if !r.Gone && index <= q.had.Block && index != q.held {
		q.holding++
		q.held = index
	}
	switch since := index > q.had.Block || index == q.had.Block && int64(r.at) >= q.had.Size; {
	case !since:
	case r.tombstone:
		q.removed = append(q.removed, r.Seq)
	default:
		q.rewrites = q.rewrites || r.Seq > q.last+1
		q.last = max(q.last, r.Seq)
	}
}

// explains reports whether lost messages of the remembered ones, up to the sequence last, may have been removed since.
func (q *sequel) explains(lost, last uint64) bool {
	if q.index > q.had.Block && q.rewrites {
		return true
	}
	slices.Sort(q.removed)
	removed := 0
	for _, seq := range slices.Compact(q.removed) {
		if seq >= q.had.First && seq <= last {
			removed++
		}
	}
	return lost <= uint64(removed+max(0, q.had.Blocks-q.holding))
}

// killed describes which messages up to the sequence last are missing that the server had some time before it was killed; "" when none is, or when
// [Options.Accounted] has the stream.
func (s *checking) killed(last uint64) string {
	if s.name == s.o.Accounted || bucket(s.name) && !s.bounds.keeps() {
		return ""
	}
	had := s.sequel.had
	live := s.tally.live(had.First, last)
	if bucket(s.name) { // its removals of what is written again leave no record: its subjects are counted
		live = uint64(len(s.tally.subjects))
	}
	if s.tally.unseen || live >= had.Messages || s.bounds.reached(s.tally.live(0, max(last, s.last)), s.sequel.stored) {
		return ""
	}
	if s.sequel.explains(had.Messages-live, last) {
		return ""
	}
	return fmt.Sprintf("%d of %d messages", had.Messages-live, had.Messages)
}

// bounds are the limits at which a stream drops its oldest messages.
type bounds struct {
	Discard  string `json:"discard"`
	Messages int64  `json:"max_msgs"`
	Bytes    int64  `json:"max_bytes"`
	Each     int64  `json:"max_msgs_per_subject"`
}

// keeps reports whether a bucket has one message of each subject, of which few expire at a time. The cards of agents, all of which may, have a bound.
func (b bounds) keeps() bool { return b.Each == 1 && b.Messages <= 0 && b.Bytes <= 0 }

// reached reports whether a stream with this content may have reached a limit.
func (b bounds) reached(messages, bytes uint64) bool {
	return b.Discard == "old" && (b.Messages > 0 && messages >= uint64(b.Messages) || b.Bytes > 0 && bytes+maxRecord >= uint64(b.Bytes))
}

// replaced reports whether the files of the stream were replaced while the server ran.
func (s *checking) replaced() bool {
	return slices.ContainsFunc(s.o.Memory.Found, func(f Finding) bool {
		return f.Running && cmp.Or(cmp.Compare(f.Account, s.account), cmp.Compare(f.Stream, s.name)) == 0
	})
}
