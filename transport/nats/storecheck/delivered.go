package storecheck

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server/gsl"
)

const (
	// stateMagic is the first byte of a consumer's state; the version follows.
	stateMagic = 22
	// maxDelay bounds how much later than usual a consumer may have been told to deliver a message again, and maxAhead how far the clock may have been
	// set back since. A state with later times is damaged, or would deliver too late.
	maxDelay = time.Hour
	maxAhead = 10 * time.Second
)

// progress is what a consumer has delivered.
type progress struct {
	sent    uint64              // greatest delivered sequence
	pending map[uint64]struct{} // delivered but not acknowledged
}

// parseState parses the state of a consumer, of a stream with this last sequence. ok is false when b is no valid state. The server has no checksum
// for it: it allocates room for as many messages as b says, and delivers none again before the times in b.
func parseState(b []byte, last uint64, now time.Time) (s progress, ok bool) {
	if len(b) < 2 || b[0] != stateMagic || b[1] != 1 && b[1] != 2 {
		return s, false
	}
	version, ok := b[1], true
	b = b[2:]
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			ok = false
			return 0
		}
		b = b[size:]
		return n
	}
	seconds := func() int64 {
		n, size := binary.Varint(b)
		if size <= 0 {
			ok = false
			return 0
		}
		b = b[size:]
		return n
	}
	number() // acknowledged, by the consumer's own count
	acked := number()
	number() // delivered, likewise
	s.sent, s.pending = number(), map[uint64]struct{}{}
	if version == 2 && (acked > s.sent || s.sent > last) {
		return s, false
	}
	pending, written := number(), int64(0)
	if pending > 0 {
		if written = seconds(); time.Unix(written, 0).After(now.Add(maxAhead)) {
			return s, false
		}
	}
	for i := uint64(0); ok && i < pending; i++ {
		seq := number()
		if version == 2 && (seq == 0 || seq > s.sent || acked+seq > s.sent) {
			return s, false
		}
		s.pending[acked+seq] = struct{}{}
		if version == 2 {
			number()
		}
		if ago := seconds(); version == 2 && ago < -int64(maxDelay/time.Second) {
			return s, false
		}
	}
	again := number()
	for i := uint64(0); ok && i < again; i++ {
		number()
		number()
	}
	return s, ok && len(b) == 0
}

// queueProgress is what the consumers of a work queue have delivered. An acknowledgement removes the message from such a stream. A message that exists, was
// delivered and is not pending contradicts that: it would never be delivered again, and the server removes it.
type queueProgress struct {
	consumers *gsl.GenericSublist[string] // names, by their filter subjects
	states    map[string]progress
	open      map[uint64]string // sequences of such messages, with the consumer, as far as the stream was read
}

// delivered reads the states of the stream's consumers, as far as they can be read.
func (s *checking) delivered() (*queueProgress, error) {
	entries, err := readFolder(filepath.Join(s.root, consumersDir))
	if isLocal(err) {
		return nil, err
	}
	w := &queueProgress{gsl.NewSublist[string](), map[string]progress{}, map[uint64]string{}}
	for _, e := range entries {
		dir := filepath.Join(s.root, consumersDir, e.Name())
		conf, err := readBounded(filepath.Join(dir, metaFile))
		b, serr := readBounded(filepath.Join(dir, consumerState))
		if isLocal(err) || isLocal(serr) {
			return nil, cmp.Or(err, serr)
		}
		var c struct {
			Filter  string   `json:"filter_subject"`
			Filters []string `json:"filter_subjects"`
		}
		state, ok := parseState(b, 1<<62, s.o.Now())
		if err != nil || serr != nil || !ok || json.Unmarshal(conf, &c) != nil {
			continue
		}
		w.states[e.Name()] = state
		if len(c.Filters) == 0 {
			c.Filters = []string{cmp.Or(c.Filter, ">")}
		}
		for _, filter := range c.Filters {
			_ = w.consumers.Insert(filter, e.Name()) // an invalid filter matches nothing
		}
	}
	return w, nil
}

// see adds a record of the stream; records come in order.
func (w *queueProgress) see(r *Record) {
	switch {
	case w == nil:
	case r.Gone:
		delete(w.open, r.Seq)
	default:
		w.consumers.Match(r.Subject, func(consumer string) {
			of := w.states[consumer]
			if _, waits := of.pending[r.Seq]; r.Seq <= of.sent && !waits {
				w.open[r.Seq] = consumer
			}
		})
	}
}

// forgotten returns the first message that a consumer has marked as acknowledged although it exists; 0 when there is none.
func (w *queueProgress) forgotten(consumer string) uint64 {
	if w == nil {
		return 0
	}
	first := uint64(0)
	for seq, of := range w.open {
		if of == consumer && (first == 0 || seq < first) {
			first = seq
		}
	}
	return first
}
