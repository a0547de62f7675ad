// Package sse guards streams of server-sent events for the vendors' SDKs: they get complete events of a bounded size, one data line each, and nothing
// that they would treat as an error or as a panic.
package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// Bounds of what is read of an answer, in bytes.
const (
	maxEvent  = 4 << 20
	maxAnswer = 32 << 20
	maxPage   = 64 << 10
	maxKept   = 64 << 10 // of a line, for the next one
)

// ErrTooBig is the error of a stream beyond its bounds.
var ErrTooBig = fmt.Errorf("an event of more than %d bytes, or an answer of more than %d", maxEvent, maxAnswer)

// ErrEnd is returned by Events that have noted the endpoint's error themselves: it ends the stream.
var ErrEnd = errors.New("the endpoint reports an error")

// NoEvents is the error for a body that is no event stream.
type NoEvents struct{ Text string } // its beginning

func (e *NoEvents) Error() string { return "the answer is no stream of events: " + e.Text }

// Events is what a client does with its endpoint's stream.
type Events interface {
	// Event returns the lines that the SDK gets for an event of this kind, which may be "". data is not empty. An error ends the stream.
	Event(kind string, data []byte) ([]byte, error)
	// Page returns the error of a body that is no stream of events, of which it gets the beginning.
	Page(body []byte) error
}

// Stream converts a body for an SDK: it replaces each complete event, and drops comments, other fields, and events that are incomplete or
// without data. For the SDK it always ends with io.EOF, since some print other errors: see
// [Stream.Broken]. It is for one goroutine.
type Stream struct {
	body   io.Closer
	in     *bufio.Reader
	events Events
	kind   string     // of the event being read
	line   []byte     // being read
	data   []byte     // of the event being read
	piece  long.Piece // line and data
	out    []byte     // the part of the last event that was not read
	size   int        // of everything read
	begun  bool       // a line was read
	ended  bool
	err    error
}

// NewStream returns the stream of a response's body.
func NewStream(body io.ReadCloser, events Events) *Stream {
	return &Stream{body: body, in: bufio.NewReader(body), events: events}
}

// Broken returns the error of a stream that ended before the end of the body; nil when it did not, or when the Events returned [ErrEnd]. A nil Stream is
// not broken.
func (s *Stream) Broken() *llm.Error {
	if s == nil || s.err == nil {
		return nil
	}
	e := &llm.Error{Kind: llm.ErrTruncated, Message: s.err.Error(), Err: s.err}
	var foreign *NoEvents
	if errors.Is(s.err, ErrTooBig) || errors.Is(s.err, long.ErrTooMany) || errors.As(s.err, &foreign) {
		e.Kind = llm.ErrUnavailable
	}
	return e
}

// Read implements [io.Reader].
func (s *Stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		s.next()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// Close implements [io.Closer].
func (s *Stream) Close() error {
	s.piece.End()
	_ = s.body.Close() // SDKs print the error
	return nil
}

// next processes a line.
func (s *Stream) next() {
	err := s.readLine()
	if errors.Is(err, ErrTooBig) || errors.Is(err, long.ErrTooMany) {
		s.end(err)
		return
	}
	name, value, _ := bytes.Cut(s.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case len(s.line) == 0:
		if err == nil {
			s.dispatch()
		}
	case string(name) == "data":
		if len(s.data) > 0 {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
	case string(name) == "event":
		s.kind = string(value)
	case len(s.data) == 0 && s.isForeign(name):
		s.foreign()
	}
	s.begun = s.begun || len(s.line) > 0
	if err == nil || s.ended {
		return
	}
	// The last event may lack its empty line. A truncated object is invalid JSON.
	if len(s.data) > 0 && !json.Valid(s.data) {
		if s.data = nil; errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	s.dispatch()
	s.end(err)
}

// readLine reads s.line. With an error it has what came before.
func (s *Stream) readLine() error {
	s.line = s.line[:0]
	for {
		part, err := s.in.ReadSlice('\n')
		s.size += len(part)
		if s.size > maxAnswer || len(s.data)+len(s.line)+len(part) > maxEvent {
			return ErrTooBig
		}
		if err := s.piece.Grow(len(s.data) + len(s.line) + len(part)); err != nil {
			return err
		}
		s.line = append(s.line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			s.line = bytes.TrimSuffix(bytes.TrimSuffix(s.line, []byte("\n")), []byte("\r"))
			return err
		}
	}
}

// dispatch makes s.data, if any, the next event.
func (s *Stream) dispatch() {
	data, kind := bytes.TrimSpace(s.data), s.kind
	if s.data, s.kind = nil, ""; len(data) > maxKept {
		s.line = nil
	}
	s.piece.End()
	if len(data) == 0 || s.ended {
		return
	}
	if long.Heavy(data) {
		s.end(ErrTooBig)
		return
	}
	out, err := s.events.Event(kind, data)
	if err != nil {
		s.end(err)
		return
	}
	s.out = append(out, "\n\n"...)
}

// end ends the stream; err is nil or io.EOF at a proper end.
func (s *Stream) end(err error) {
	if s.ended = true; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, ErrEnd) && s.err == nil {
		s.err = err
	}
}

// isForeign reports whether a line that begins with name shows that this is no event stream but a page or JSON. Unknown fields show that only at the
// beginning.
func (s *Stream) isForeign(name []byte) bool {
	switch string(name) {
	case "", "event", "id", "retry":
		return false
	}
	return !s.begun || bytes.IndexByte([]byte("{[<"), name[0]) >= 0
}

// foreign ends the stream with the error in s.line and the rest of the body.
func (s *Stream) foreign() {
	rest, _ := io.ReadAll(io.LimitReader(s.in, maxPage))
	s.end(s.events.Page(append(append(bytes.Clone(s.line), '\n'), rest...)))
}
