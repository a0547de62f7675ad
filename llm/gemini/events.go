package gemini

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// Bounds of what is read of an answer, in bytes.
const (
	maxEvent  = 4 << 20
	maxAnswer = 32 << 20
)

var errTooBig = fmt.Errorf("an event of more than %d bytes, or an answer of more than %d", maxEvent, maxAnswer)

// noEvents is the error for a body that is no event stream, with its beginning.
type noEvents struct{ body string }

func (e *noEvents) Error() string { return "the answer is no stream of events: " + e.body }

// events converts a body of server-sent events for the SDK: each event becomes one data line, a response, and an empty line. It drops comments and
// other fields, which the SDK treats as errors, and incomplete events. An error in the stream ends it. For the SDK it always ends with io.EOF, since
// the SDK prints other errors; the exchange has the error.
type events struct {
	body  io.Closer
	in    *bufio.Reader
	x     *exchange
	line  []byte // being read
	data  []byte // of the event being read
	out   []byte // the part of the last event that was not read
	size  int    // of everything read
	begun bool   // a line was read
	ended bool
}

func newEvents(body io.ReadCloser, x *exchange) *events {
	return &events{body: body, in: bufio.NewReader(body), x: x}
}

// Read implements [io.Reader].
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// Close implements [io.Closer].
func (e *events) Close() error {
	_ = e.body.Close() // the SDK would print the error
	return nil
}

// next processes a line.
func (e *events) next() {
	err := e.readLine()
	if errors.Is(err, errTooBig) {
		e.end(err)
		return
	}
	name, value, _ := bytes.Cut(e.line, []byte(":"))
	switch {
	case len(e.line) == 0:
		if err == nil {
			e.dispatch()
		}
	case string(name) == "data":
		value = bytes.TrimPrefix(value, []byte(" "))
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	case len(e.data) == 0 && e.isForeign(name):
		e.foreign()
	}
	e.begun = e.begun || len(e.line) > 0
	if err == nil || e.ended {
		return
	}
	// The last event may lack its empty line. A truncated object is invalid JSON.
	if len(e.data) > 0 && !json.Valid(e.data) {
		if e.data = nil; errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	e.dispatch()
	e.end(err)
}

// readLine reads e.line. With an error it has what came before.
func (e *events) readLine() error {
	e.line = e.line[:0]
	for {
		piece, err := e.in.ReadSlice('\n')
		e.size += len(piece)
		if e.size > maxAnswer || len(e.data)+len(e.line)+len(piece) > maxEvent {
			return errTooBig
		}
		e.line = append(e.line, piece...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			e.line = bytes.TrimSuffix(bytes.TrimSuffix(e.line, []byte("\n")), []byte("\r"))
			return err
		}
	}
}

// dispatch makes e.data, if any, the next event.
func (e *events) dispatch() {
	data := bytes.TrimSpace(e.data)
	e.data = nil
	if len(data) == 0 || e.ended {
		return
	}
	if fault := google.FaultIn(data); fault != nil {
		e.x.fault = fault
		e.end(nil)
		return
	}
	reduced, err := e.x.reduce(data)
	if err != nil || data[0] != '{' { // null is no error
		e.end(&noEvents{google.Excerpt(data)})
		return
	}
	e.out = slices.Concat([]byte("data: "), reduced, []byte("\n\n"))
}

// end ends the stream; err is nil or io.EOF at a proper end.
func (e *events) end(err error) {
	if e.ended = true; err != nil && !errors.Is(err, io.EOF) && e.x.err == nil {
		e.x.err = err
	}
}

// isForeign reports whether a line that begins with name shows that this is no event stream but a page or JSON. Unknown fields show that only at the
// beginning.
func (e *events) isForeign(name []byte) bool {
	switch string(name) {
	case "", "event", "id", "retry":
		return false
	}
	return !e.begun || bytes.IndexByte([]byte("{[<"), name[0]) >= 0
}

// foreign ends the stream with the error in e.line and the rest of the body.
func (e *events) foreign() {
	rest, _ := io.ReadAll(io.LimitReader(e.in, google.MaxFault))
	body := append(append(bytes.Clone(e.line), '\n'), rest...)
	if fault := google.FaultIn(body); fault != nil {
		e.x.fault = fault
		e.end(nil)
		return
	}
	e.end(&noEvents{google.Excerpt(body)})
}
