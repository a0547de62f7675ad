package storecheck

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// fullBlock is how large the server makes the blocks of work queues and of files.
const fullBlock = 4 << 20

// Had is what a server has of a stream.
type Had struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first"` // sequence
	Place
}

// Place is where the blocks of a stream ended.
type Place struct {
	Blocks int    `json:"blocks,omitempty"` // how many there were
	Block  uint32 `json:"block,omitempty"`  // index of the last one
	Size   int64  `json:"size,omitempty"`   // of that one, in bytes
	End    []byte `json:"end,omitempty"`    // its last bytes: a checksum
}

// Placed returns where the blocks of a stream, named "account/stream", end in the store in dir, which a server may have open. What it writes
// behind that, it writes later.
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

// sequel is what has become of a stream since a server had what is remembered of it. A server that removes a message writes that down behind
// all that it had, but for the last message of a block, whose file it removes. It writes a full block anew without what is of no use any more
// when that is more than half of it.
type sequel struct {
	had     Had
	removed []uint64 // sequences
	holding int      // how many of the blocks that it had have messages
	held    uint32   // index of the last one of them
	stored  uint64   // bytes

	index    uint32 // of the last block that was written since
	last     uint64 // sequence of the last message
	rewrites bool   // one of the blocks that were written since was written anew, or removed: what it said may be gone
}

// begin takes note of a block, in their order.
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

// see takes note of a record of a block, in their order.
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

// explains reports whether so many messages of those that it had, up to the sequence last, may have been removed since.
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

// killed says what is not there of what the server had up to the sequence last, some time before it was killed, "" when nothing is missing, or
// somebody accounts for each message.
func (s *checking) killed(last uint64) string {
	if s.each != nil || !Counts(s.name) {
		return ""
	}
	had := s.sequel.had
	live := s.tally.live(had.First, last)
	if s.tally.unseen || live >= had.Messages || s.bounds.reached(s.tally.live(0, max(last, s.last)), s.sequel.stored) {
		return ""
	}
	if s.sequel.explains(had.Messages-live, last) {
		return ""
	}
	return fmt.Sprintf("%d of %d messages", had.Messages-live, had.Messages)
}

// bounds are those beyond which a stream drops its oldest messages.
type bounds struct {
	Discard  string `json:"discard"`
	Messages int64  `json:"max_msgs"`
	Bytes    int64  `json:"max_bytes"`
}

// reached reports whether so much may be all that a stream takes.
func (b bounds) reached(messages, bytes uint64) bool {
	return b.Discard == "old" && (b.Messages > 0 && messages >= uint64(b.Messages) || b.Bytes > 0 && bytes+maxRecord >= uint64(b.Bytes))
}

// Counts reports whether the messages of a stream can be counted: a bucket overwrites and expires them without a word.
func Counts(stream string) bool { return Ours(stream) && !bucket(stream) }

// replaced reports whether the files of the stream were others than the server's while it ran.
func (s *checking) replaced() bool {
	return slices.ContainsFunc(s.o.Memory.Found, func(f Finding) bool {
		return f.Running && cmp.Or(cmp.Compare(f.Account, s.account), cmp.Compare(f.Stream, s.name)) == 0
	})
}
