package jetstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	batchMessages = 1024    // messages asked for at once
	batchBytes    = 1 << 20 // a batch ends with the message that goes over it

	// replyTimeout is how long the server may be silent while an answer is waited for.
	replyTimeout = 5 * time.Second
)

var (
	errSilent   = errors.New("the server stopped answering")
	errNotFound = errors.New("no message")
)

// directGet is the request of JetStream's direct get: the messages of one subject from a sequence on.
type directGet struct {
	Seq      uint64 `json:"seq"`
	Subject  string `json:"next_by_subj"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// stored is a message of the log.
type stored struct {
	seq  uint64
	data []byte
}

// reader reads the messages of one subject in order, a batch at a time.
type reader struct {
	s       *Store
	subject string
	inbox   *nats.Subscription
	replies chan *nats.Msg // room for one batch; what finds none is dropped, which batch notices
	next    uint64         // sequence to go on from
}

func (s *Store) newReader(subject string, from uint64) (*reader, error) {
	replies := make(chan *nats.Msg, batchMessages+1)
	inbox, err := s.nc.ChanSubscribe(s.nc.NewInbox(), replies)
	if err != nil {
		return nil, err
	}
	return &reader{s, subject, inbox, replies, from}, nil
}

func (r *reader) close() { _ = r.inbox.Unsubscribe() }

// batch returns the next messages, and how many are left after them. The server answers with one message for each, then
// with a mark that ends the batch. Without that mark, or with a gap in the chain that the messages form, the answer is
// worth nothing: an answer that stops early must not pass for a log that ends there.
//
// No message at all is errNotFound.
func (r *reader) batch(ctx context.Context) (msgs []stored, left uint64, err error) {
	req, err := json.Marshal(directGet{r.next, r.subject, batchMessages, batchBytes})
	if err != nil {
		return nil, 0, err
	}
	if err := r.s.nc.PublishRequest(r.s.api+"DIRECT.GET."+Stream, r.inbox.Subject, req); err != nil {
		return nil, 0, err
	}
	silence := time.NewTimer(r.s.timeout)
	defer silence.Stop()
	var last uint64 // of the batch
	for {
		var m *nats.Msg
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-silence.C:
			return nil, 0, errSilent
		case m = <-r.replies:
			silence.Reset(r.s.timeout)
		}
		status := m.Header.Get("Status")
		switch {
		case status == "404" && len(msgs) == 0:
			return nil, 0, errNotFound
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
			return msgs, left, nil
		}
		seq, err := number(m, jetstream.SequenceHeader)
		if err != nil {
			return nil, 0, err
		}
		if got := m.Header.Get(jetstream.SubjectHeader); got != r.subject || seq < r.next || seq <= last {
			return nil, 0, fmt.Errorf("the server answers with message %d of %s, want one of %s from %d on", seq, got, r.subject, max(r.next, last+1))
		}
		msgs = append(msgs, stored{seq, m.Data})
		last = seq
	}
}

func number(m *nats.Msg, header string) (uint64, error) {
	n, err := strconv.ParseUint(m.Header.Get(header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the server answers without a proper %s: %w", header, err)
	}
	return n, nil
}

// request asks the server about the stream.
func (s *Store) request(ctx context.Context, method string, req []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	defer cancel()
	m, err := s.nc.RequestWithContext(ctx, s.api+method+Stream, req)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return m, err
}

// get returns the first message of subject from a sequence on, or errNotFound.
func (s *Store) get(ctx context.Context, subject string, from uint64) (stored, error) {
	req, err := json.Marshal(directGet{Seq: from, Subject: subject})
	if err != nil {
		return stored{}, err
	}
	m, err := s.request(ctx, "DIRECT.GET.", req)
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
	return stored{seq, m.Data}, err
}

// lastOf asks the stream's leader for the last sequence of a subject; 0 when it has none. Unlike a direct get, which any
// replica may answer, the leader's word covers every append that was acknowledged.
func (s *Store) lastOf(ctx context.Context, subject string) (uint64, error) {
	req, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return 0, err
	}
	m, err := s.request(ctx, "STREAM.MSG.GET.", req)
	if err != nil {
		return 0, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return 0, err
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return 0, nil
	case resp.Error != nil:
		return 0, resp.Error
	case resp.Message == nil:
		return 0, errors.New("the server answers without a message")
	}
	return resp.Message.Seq, nil
}
