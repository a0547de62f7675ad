package storecheck

import (
	"errors"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"slices"
)

// tally counts the messages in the blocks of a stream. It may count too many, since a server records only some removals, but never too few.
type tally struct {
	runs   []run    // of consecutive sequences, in order
	gone   []uint64 // sequences with a later record of their removal
	last   uint64
	unseen bool // a block is compressed

	subjects map[uint64]struct{} // hashes of those of its messages; nil: they are not counted
}

// seed is that of the hashes of subjects.
var seed = maphash.MakeSeed()

// run is a range of sequences, both ends included.
type run struct{ from, to uint64 }

// see adds a record; records come in order.
func (t *tally) see(r *Record) {
	if t.subjects != nil && !r.Gone {
		t.subjects[maphash.String(seed, r.Subject)] = struct{}{}
	}
	at := len(t.runs) - 1
	switch t.last = max(t.last, r.Seq); {
	case r.tombstone:
		t.gone = append(t.gone, r.Seq)
	case r.Gone, at >= 0 && r.Seq <= t.runs[at].to:
	case at >= 0 && r.Seq == t.runs[at].to+1:
		t.runs[at].to = r.Seq
	default:
		t.runs = append(t.runs, run{r.Seq, r.Seq})
	}
}

// live returns the number of messages from the sequence first to last, both included.
func (t *tally) live(first, last uint64) (n uint64) {
	slices.Sort(t.gone)
	t.gone = slices.Compact(t.gone)
	for _, r := range t.runs {
		if r.from, r.to = max(r.from, first), min(r.to, last); r.from > r.to {
			continue
		}
		from, _ := slices.BinarySearch(t.gone, r.from)
		to, _ := slices.BinarySearch(t.gone, r.to+1)
		n += r.to - r.from + 1 - uint64(to-from)
	}
	return n
}

// Count is the content of the blocks of a stream.
type Count struct {
	tally   tally
	damaged uint64
}

// Counted reads the blocks of a stream, named "account/stream", in the store in dir. A server may have the store open; what it writes meanwhile may
// or may not be counted.
func Counted(dir, name string, each func()) (*Count, error) {
	root, err := streamDir(dir, name)
	if err != nil {
		return nil, err
	}
	entries, err := readFolder(filepath.Join(root, messagesDir))
	if unlessGone(err) != nil {
		return nil, err
	}
	c := &Count{}
	for _, index := range blockIndices(namesOf(entries)) {
		each()
		b, err := readBounded(filepath.Join(root, filepath.FromSlash(blockFileOf(index))))
		if err != nil && !gone(err) && !errors.Is(err, errNoFile) {
			return nil, err
		}
		if compressed(b) {
			c.tally.unseen = true
			continue
		}
		r, err := newBlock(filepath.Base(root), index)
		if err != nil {
			return nil, err
		}
		intact := false
		holes := r.read(b, func(r *Record) error {
			intact = true
			c.tally.see(r)
			return nil
		})
		if !intact {
			continue // it may be the block of another stream
		}
		for _, h := range holes {
			c.damaged += r.lost(b, h)
		}
	}
	return c, nil
}

// Damaged returns how many messages are damaged where they are, in blocks that have intact ones as well, also of those that were removed since. A server
// that writes a block anew copies what is damaged, too.
func (c *Count) Damaged() uint64 { return c.damaged }

// Last returns the sequence of the last intact record.
func (c *Count) Last() uint64 { return c.tally.last }

// Lacking returns how many messages are missing, for which [Count.Lacks] has words.
func (c *Count) Lacking(messages, first, last uint64, queue bool) uint64 {
	n := messages - min(messages, c.tally.live(first, last))
	if !queue {
		n = max(n, last-min(last, c.tally.last))
	}
	return n
}

// Lacks describes what is missing of a stream that had this number of messages, from the sequence first to last; "" when nothing is. The blocks of
// a work queue may end before last: a server drops a last record that only says that a message is gone.
func (c *Count) Lacks(messages, first, last uint64, queue bool) string {
	return c.tally.lacks(messages, first, last, queue)
}

func (t *tally) lacks(messages, first, last uint64, queue bool) string {
	switch live := t.live(first, last); {
	case t.unseen || messages == 0:
	case t.last < last && !queue:
		return fmt.Sprintf("messages %d to %d", t.last+1, last)
	case live < messages:
		return fmt.Sprintf("%d of %d messages", messages-live, messages)
	}
	return ""
}
