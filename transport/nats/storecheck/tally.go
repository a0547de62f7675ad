package storecheck

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// tally counts the messages in the blocks of a stream. It may count too many, since a server writes down only some of what it removes, but
// never too few.
type tally struct {
	runs   []run    // of sequences without a gap, in order
	gone   []uint64 // sequences that were removed later
	last   uint64
	unseen bool // a block is compressed
}

// run is from one sequence to another one.
type run struct{ from, to uint64 }

// see takes note of a record, in their order.
func (t *tally) see(r *Record) {
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

// live returns how many messages are there with a sequence between two, both included.
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

// Count is what the blocks of a stream have.
type Count struct{ tally tally }

// Counted reads the blocks of a stream, named "account/stream", in the store in dir, which a server may have open. What it writes meanwhile
// may be counted or not.
func Counted(dir, name string) (*Count, error) {
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
		r.read(b, func(r *Record) error {
			c.tally.see(r)
			return nil
		})
	}
	return c, nil
}

// Lacks says what is not there, "" when nothing is missing, of a stream that had so many messages, from the sequence first on, and ended at
// last. Of a work queue the end is not always in the blocks: a server drops a record there which only says that a message is gone.
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
