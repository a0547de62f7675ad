package jetstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	batchMessages = 1024    // messages of one batch
	batchBytes    = 1 << 20 // the message that exceeds it ends the batch

	// The same for the first batch, and for last messages of many subjects: a gateway charges for what an answer may have, and most conversations are
	// short.
	firstMessages = 32
	firstBytes    = 128 << 10

	// replyTimeout bounds the wait for an answer, including repeated requests.
	replyTimeout = 5 * time.Second
	// askAgain is when an unanswered request is repeated, since the server that was asked may have been killed. Each further wait is twice as long:
	// more requests do not help an overloaded server.
	askAgain = time.Second
)

var (
	errSilent   = errors.New("the server stopped answering")
	errNotFound = errors.New("no message")
	errUnread   = errors.New("the server answers 404: it cannot read a message that it has")
)

// directGet is a request of JetStream's direct get: messages of one subject from a sequence on, or the last message of each of several.
type directGet struct {
	Seq      uint64   `json:"seq"`
	Subject  string   `json:"next_by_subj,omitempty"`
	Last     []string `json:"multi_last,omitempty"`
	Batch    int      `json:"batch,omitempty"`
	MaxBytes int      `json:"max_bytes,omitempty"`
}

// msgGet is a request of JetStream's get, which the stream's leader answers: one message by its sequence, the last one of a subject, or the next
// one of a subject from a sequence on.
type msgGet struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// stored is a message of a stream.
type stored struct {
	seq     uint64
	subject string
	data    []byte
	key     string      // keyHeader of a first entry; set by get
	sum     string      // sumHeader of an entry
	header  []byte      // as the server stores it; set by getFromLeader
	at      time.Time   // when the server stored it; likewise
	headers nats.Header // likewise, with the server's own headers; set by a reader
}

// when returns the time in a header, or else the time at which the message was stored.
func (m *stored) when(header string) time.Time {
	for _, h := range []string{header, jetstream.TimeStampHeaer} {
		if t, err := time.Parse(time.RFC3339Nano, m.headers.Get(h)); err == nil {
			return t
		}
	}
	return time.Time{}
}

// isMarker reports whether a message of a bucket marks a deletion.
func isMarker(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// reader reads the messages of one subject in order, batch by batch; or of all subjects that differ in their last token, if that is a *; or the
// last message of each of several subjects; or all messages.
type reader struct {
	s       *Store
	stream  string
	subject string
	last    []string // in place of subject
	all     bool     // all messages of the stream, in small batches; in place of subject
	inbox   *nats.Subscription
	replies chan *nats.Msg // has room for one batch; further messages are dropped, which batch notices
	next    uint64         // sequence to continue from
	batches int            // number of batches read
}

func (s *Store) newReader(stream, subject string, from uint64) (*reader, error) {
	r := &reader{s: s, stream: stream, subject: subject, next: from}
	return r, r.listen()
}

// listen makes an inbox for answers.
func (r *reader) listen() (err error) {
	r.replies = make(chan *nats.Msg, batchMessages+1)
	r.inbox, err = r.s.reads.ChanSubscribe(r.s.reads.NewInbox(), r.replies)
	return err
}

func (r *reader) close() { _ = r.inbox.Unsubscribe() }

// bounds returns the limits of the next batch.
func (r *reader) bounds() (messages, bytes int) {
	switch {
	case r.all:
		return journalMessages, journalBytes
	case len(r.last) > 0:
		return len(r.last), firstBytes
	case r.batches == 0:
		return firstMessages, firstBytes
	}
	return batchMessages, batchBytes
}

// batch returns the next messages, and how many are left after them. It repeats the request while no answer comes: one of several replicas was
// asked, which may have been killed. It returns errNotFound when there are no messages.
func (r *reader) batch(ctx context.Context) (msgs []stored, left uint64, err error) {
	if err := r.s.reading.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer r.s.reading.leave()
	end := time.Now().Add(r.s.timeout)
	for quiet := min(askAgain, r.s.timeout); ; quiet = min(2*quiet, max(time.Until(end), askAgain)) {
		msgs, left, err = r.ask(ctx, quiet)
		if !errors.Is(err, errSilent) || !time.Now().Before(end) {
			return msgs, left, err
		}
		r.close()
		if err := r.listen(); err != nil { // a late answer to the first request must not be mixed with this one
			return nil, 0, err
		}
	}
}

// ask sends the request once, and waits at most quiet for each part of the answer. The server answers with one message for each, then with a mark
// that ends the batch. ask refuses an answer without that mark, or with a gap in the chain of the messages: a truncated answer must not be taken
// for the end of a log.
func (r *reader) ask(ctx context.Context, quiet time.Duration) (msgs []stored, left uint64, err error) {
	messages, bytes := r.bounds()
	req, err := json.Marshal(directGet{Seq: r.next, Subject: r.subject, Last: r.last, Batch: messages, MaxBytes: bytes})
	if err != nil {
		return nil, 0, err
	}
	if err := r.s.reads.PublishRequest(r.s.api+"DIRECT.GET."+r.stream, r.inbox.Subject, req); err != nil {
		return nil, 0, err
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	var last uint64 // sequence in this batch
	for {
		var m *nats.Msg
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-silence.C:
			return nil, 0, errSilent
		case m = <-r.replies:
			silence.Reset(quiet)
		}
		status := m.Header.Get("Status")
		switch {
		case status == "404" && len(msgs) == 0:
			return nil, 0, errNotFound
		case status == "404":
			return nil, 0, errUnread
		case status == "503":
			return nil, 0, nats.ErrNoResponders
		case status != "" && status != "204":
			return nil, 0, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
		}
		before, err := number(m, jetstream.LastSequenceHeader)
		if err != nil {
			return nil, 0, err
		}
		if before != last {
			return nil, 0, fmt.Errorf("messages are missing from the server's answer: got %d, then what follows %d", last, before)
		}
		if left, err = number(m, "Nats-Num-Pending"); err != nil {
			return nil, 0, err
		}
		if status == "204" {
			if len(msgs) == 0 {
				return nil, 0, errors.New("the server's answer is empty")
			}
			r.next = last + 1
			r.batches++
			return msgs, left, nil
		}
		seq, err := number(m, jetstream.SequenceHeader)
		if err != nil {
			return nil, 0, err
		}
		got := m.Header.Get(jetstream.SubjectHeader)
		if !r.wants(got) || seq < r.next || seq <= last {
			return nil, 0, fmt.Errorf("the server answers with message %d of %s, want one of %s%v from %d on", seq, got, r.subject, r.last, max(r.next, last+1))
		}
		msgs = append(msgs, stored{seq: seq, subject: got, data: m.Data, sum: m.Header.Get(sumHeader), headers: m.Header})
		last = seq
	}
}

// readAll calls each for every message of a subject, the oldest first.
func (s *Store) readAll(ctx context.Context, stream, subject string, each func(*stored)) error {
	return s.readWith(ctx, &reader{s: s, stream: stream, subject: subject, next: 1}, each)
}

// readWith calls each for every message that r finds.
func (s *Store) readWith(ctx context.Context, r *reader, each func(*stored)) error {
	if err := r.listen(); err != nil {
		return err
	}
	defer r.close()
	for left := uint64(1); left > 0; {
		msgs, more, err := r.batch(ctx)
		if errors.Is(err, errNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		left = more
		for i := range msgs {
			each(&msgs[i])
		}
	}
	return nil
}

// wants reports whether a message of subject belongs to the answer.
func (r *reader) wants(subject string) bool {
	return r.all || r.subject != "" && covers(r.subject, subject) || slices.Contains(r.last, subject)
}

// covers reports whether subject matches filter.
func covers(filter, subject string) bool {
	prefix, all := strings.CutSuffix(filter, "*")
	return subject == filter || all && strings.HasPrefix(subject, prefix) && !strings.Contains(subject[len(prefix):], ".")
}

func number(m *nats.Msg, header string) (uint64, error) {
	n, err := strconv.ParseUint(m.Header.Get(header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the server answers without a proper %s: %w", header, err)
	}
	return n, nil
}

// request sends a request about a stream over nc. It repeats the request after a while, since a killed leader does not answer, and its successor
// does not know the request.
func (s *Store) request(ctx context.Context, nc *nats.Conn, method, stream string, req []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	defer cancel()
	for again := askAgain; ; again *= 2 {
		attempt, done := context.WithTimeout(ctx, again)
		m, err := nc.RequestWithContext(attempt, s.api+method+stream, req)
		done()
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, context.DeadlineExceeded):
			return m, err
		}
	}
}

// get returns the first message of subject from a sequence on, or errNotFound.
func (s *Store) get(ctx context.Context, subject string, from uint64) (stored, error) {
	req, err := json.Marshal(directGet{Seq: from, Subject: subject})
	if err != nil {
		return stored{}, err
	}
	return s.getOne(ctx, Stream, subject, req)
}

// lastHere returns the last message of subject that the server has which answers, or errNotFound.
func (s *Store) lastHere(ctx context.Context, subject string) (stored, error) {
	return s.getOne(ctx, Stream+"."+subject, subject, nil)
}

// getOne returns the message of subject for which a request at this place asks, or errNotFound.
func (s *Store) getOne(ctx context.Context, place, subject string, req []byte) (stored, error) {
	if err := s.reading.enter(ctx); err != nil {
		return stored{}, err
	}
	defer s.reading.leave()
	m, err := s.request(ctx, s.reads, "DIRECT.GET.", place, req)
	if err != nil {
		return stored{}, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return stored{}, errNotFound
	default:
		return stored{}, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
	}
	seq, err := number(m, jetstream.SequenceHeader)
	return stored{seq: seq, subject: subject, data: m.Data, key: m.Header.Get(keyHeader), sum: m.Header.Get(sumHeader), headers: m.Header}, err
}

// lastOf returns the sequence of the last message of a subject, from the stream's leader; 0 when there is none.
func (s *Store) lastOf(ctx context.Context, subject string) (uint64, error) {
	m, err := s.last(ctx, subject)
	return m.seq, err
}

// last asks the stream's leader for the last message of a subject; its sequence is 0 when there is none. Unlike a direct get, which any replica may
// answer, the leader's answer includes every acknowledged append.
func (s *Store) last(ctx context.Context, subject string) (stored, error) {
	return s.getFromLeader(ctx, Stream, msgGet{Last: subject})
}

// getFromLeader asks a stream's leader for a message; its sequence is 0 when there is none.
func (s *Store) getFromLeader(ctx context.Context, stream string, what msgGet) (stored, error) {
	req, err := json.Marshal(what)
	if err != nil {
		return stored{}, err
	}
	m, err := s.request(ctx, s.nc, "STREAM.MSG.GET.", stream, req)
	if err != nil {
		return stored{}, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return stored{}, err
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return stored{}, nil
	case resp.Error != nil:
		return stored{}, resp.Error
	case resp.Message == nil:
		return stored{}, errors.New("the server answers without a message")
	case what.Next != "" && (resp.Message.Seq < what.Seq || resp.Message.Seq == math.MaxUint64): // who goes on behind it would come back to it for ever
		return stored{}, fmt.Errorf("the server answers with message %d to a request for what follows %d", resp.Message.Seq, what.Seq)
	}
	return stored{seq: resp.Message.Seq, subject: resp.Message.Subject, data: resp.Message.Data, header: resp.Message.Header, at: resp.Message.Time}, nil
}
