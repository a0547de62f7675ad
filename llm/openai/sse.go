package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

const (
	// maxLine bounds a line and a frame, in bytes. An answer may come in a single one.
	maxLine = 8 << 20
	// maxBody bounds a response, in bytes. A frame has about 300 bytes around a word or two.
	maxBody = 16 << 20
	// maxStray bounds how much unexpected text is kept, in bytes: more than is shown, so that no secret is cut before it is removed.
	maxStray = 4 << 10
	// Bounds of what is read after [DONE], usually nothing: only after reading the whole response can a connection of HTTP/1.1 be reused.
	maxRest, restTime = 4 << 10, 100 * time.Millisecond
)

// format interprets the frames of one of the APIs for a [repair].
type format interface {
	// frame interprets data, of an event with this name. It returns false if data is not JSON.
	frame(event string, data []byte) (reading, bool)
	// object interprets the JSON of a body that is no event stream.
	object(data []byte) reading
	// alive is the empty frame that stands for a keep-alive.
	alive() part
}

// part is what a frame adds to an answer.
type part interface {
	// addTo adds it, and returns the text to yield.
	addTo(a *answer) (text string, err error)
}

// reading is what a frame of the endpoint means.
type reading struct {
	frames []part     // none for what is no part of an answer
	ends   bool       // the answer may end here
	last   bool       // nothing follows
	failed []byte     // the endpoint's error, which follows the frames
	err    *llm.Error // likewise
}

// repair reads the body of a response, of whatever form, in the place of the SDK, which fails on fields that are not used, and reads nothing: it gets
// an empty body. A keep-alive becomes an empty part. Anything else ends the answer with an error: an [llm.Error] for an error or an incomplete answer
// of the endpoint, the reader's own error for the end of ctx. In particular, io.EOF comes only when the endpoint sent [DONE], or a reason for the end
// of the answer.
type repair struct {
	format  format
	body    io.Closer
	in      *bufio.Reader
	limit   *io.LimitedReader // below in
	header  http.Header
	target  string   // the URL, for errors
	secrets []string // which errors must not show

	out      []part     // not yet returned
	err      error      // follows out
	begun    bool       // there was any content
	data     []byte     // of an incomplete event
	piece    long.Piece // the line and data
	event    string     // its name
	frames   int
	finished bool   // the answer has ended
	complete func() // ends the reading soon
	stray    []byte // the last unexpected text; it may explain why the stream ended
}

func newRepair(body io.ReadCloser, f format, header http.Header, target string) *repair {
	limit := &io.LimitedReader{R: body, N: maxBody}
	complete := long.Rest(func() { _ = body.Close() })
	return &repair{format: f, body: body, limit: limit, in: bufio.NewReaderSize(limit, 16<<10), header: header, target: target, complete: complete}
}

// next returns the next part of the answer, as soon as it is there.
func (r *repair) next() (part, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return nil, r.err
		}
		r.step()
	}
	p := r.out[0]
	if r.out = r.out[1:]; len(r.out) == 0 {
		r.out = nil
	}
	return p, nil
}

// Read implements [io.Reader] for the SDK.
func (*repair) Read([]byte) (int, error) { return 0, io.EOF }

// Close implements [io.Closer].
func (r *repair) Close() error {
	r.piece.End()
	if errors.Is(r.err, io.EOF) {
		enough := time.AfterFunc(restTime, func() { _ = r.body.Close() }) // ends the reading
		_, _ = io.CopyN(io.Discard, r.in, maxRest)
		enough.Stop()
	}
	return r.body.Close()
}

// step reads a line.
func (r *repair) step() {
	if !r.begun {
		r.begin()
		return
	}
	line, err := r.readLine()
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if long.Heavy(line) { // all its parts are read before the first is returned
		line, err = nil, errTooBig
	}
	if err == nil || len(line) > 0 {
		for part := range bytes.SplitSeq(line, []byte("\r")) { // \r also ends a line
			if r.err == nil {
				r.take(part)
			}
		}
	}
	if err != nil && r.err == nil {
		r.end(err)
	}
	if len(r.data) == 0 {
		r.piece.End()
	}
}

func (r *repair) readLine() ([]byte, error) {
	var whole []byte
	for {
		part, err := r.in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if whole == nil && !full {
			return part, err
		}
		if len(whole)+len(part) > maxLine {
			return nil, errTooBig
		}
		if err := r.piece.Grow(len(r.data) + len(whole) + len(part)); err != nil {
			return nil, err
		}
		if whole = append(whole, part...); !full {
			return whole, err
		}
	}
}

// errTooBig is the error for a line or a body above the bounds.
var errTooBig = errors.New("more than can be one answer")

// blank is what may be in front of an answer: white space, and the mark of UTF-8.
const blank = " \t\r\n\xef\xbb\xbf"

// begin reads what is blank, or from the first byte that is not, which shows whether this is an event stream; if not, the whole body.
func (r *repair) begin() {
	first, err := r.in.Peek(1)
	switch {
	case err != nil:
		r.end(err)
		return
	case strings.IndexByte(blank, first[0]) >= 0:
		_, _ = r.in.Discard(1)
		return
	}
	r.begun = true
	switch first[0] {
	case '{', '[':
		r.object()
	case '<':
		page, _ := io.ReadAll(io.LimitReader(r.in, maxErrorBody)) // a partial body is sufficient
		r.fail(r.errorOf(page))
	}
}

// take processes a line, without its end.
func (r *repair) take(line []byte) {
	if len(line) == 0 {
		r.dispatch()
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "data":
		r.addData(bytes.TrimPrefix(value, []byte(" ")))
	case "event":
		r.event = string(bytes.TrimSpace(value))
	case "": // a comment
		r.alive()
	case "id", "retry": // not used
	default:
		// No field. Some frameworks send an error like this.
		if line[0] != '{' || !r.frame(line) {
			r.keep(line)
		}
	}
}

// addData adds the value of a data line. Most frames have one line and are processed at once: not every endpoint sends an empty line after them, and
// the next frame may take long.
func (r *repair) addData(value []byte) {
	if len(r.data) > 0 {
		if len(r.data)+len(value) >= maxLine {
			r.end(errTooBig)
			return
		}
		if err := r.piece.Grow(len(r.data) + len(value)); err != nil {
			r.end(err)
			return
		}
		r.data = append(append(r.data, '\n'), value...)
		return
	}
	switch text := bytes.TrimSpace(value); {
	case len(text) == 0:
	case string(text) == "[DONE]":
		r.done()
	case r.frame(text):
	default:
		r.data = append(r.data, text...)
	}
}

// dispatch processes an event.
func (r *repair) dispatch() {
	data, event := bytes.TrimSpace(r.data), r.event
	r.data, r.event = r.data[:0], ""
	switch {
	case len(data) == 0:
	case string(data) == "[DONE]":
		r.done()
	case r.frame(data):
	case event == eventError:
		r.fail(r.errorOf(data))
	case data[0] == '{':
		r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("it sent what is no JSON: %s", r.excerpt(data))})
	default: // another kind of event, or a keep-alive text
		r.keep(data)
		r.alive()
	}
}

// eventError is the name of the event with which some endpoints end a stream.
const eventError = "error"

// keep stores unexpected text.
func (r *repair) keep(text []byte) { r.stray = append(r.stray[:0], text[:min(len(text), maxStray)]...) }

// excerpt returns the part of text to show.
func (r *repair) excerpt(text []byte) string {
	return excerpt(hide(text[:min(len(text), maxStray)], r.secrets))
}

// errorOf returns the error in body. Of a large body it shows the beginning.
func (r *repair) errorOf(body []byte) *llm.Error {
	return errorOf(0, hide(body[:min(len(body), maxErrorBody)], r.secrets), r.target)
}

// frame processes data if it is JSON, and returns false if not.
func (r *repair) frame(data []byte) bool {
	if long.Heavy(data) {
		r.end(errTooBig)
		return true
	}
	f, ok := r.format.frame(r.event, data)
	if ok {
		r.put(f, data)
	}
	return ok
}

// object reads a JSON body that is no event stream: an error, or the whole answer of an endpoint that does not stream. It reads no further than to the
// last brace, behind which there may be neither the end of a line nor that of the body.
func (r *repair) object() {
	rest := &io.LimitedReader{R: r.in, N: maxLine}
	in := &growing{r: rest, piece: &r.piece}
	var raw json.RawMessage
	err := json.NewDecoder(in).Decode(&raw)
	var syntax *json.SyntaxError
	switch {
	case rest.N == 0, long.Heavy(raw):
		r.end(errTooBig)
		return
	case errors.As(err, &syntax):
		r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("it answered with what is no JSON: %s", r.excerpt(in.start))})
		return
	case err != nil:
		r.end(err)
		return
	}
	r.put(r.format.object(raw), raw)
	if r.err == nil {
		r.done()
	}
}

// growing notes how much has been read of a piece, and keeps its beginning.
type growing struct {
	start []byte
	r     io.Reader
	piece *long.Piece
	size  int
}

func (g *growing) Read(p []byte) (int, error) {
	if err := g.piece.Grow(g.size); err != nil {
		return 0, err
	}
	n, err := g.r.Read(p)
	g.size += n
	g.start = append(g.start, p[:min(n, maxStray-len(g.start))]...)
	return n, err
}

// put adds what data means.
func (r *repair) put(f reading, data []byte) {
	if len(f.frames) > 0 {
		r.frames++
	}
	if f.ends {
		r.finished = true
		r.complete()
	}
	r.out = append(r.out, f.frames...)
	switch {
	case f.err != nil:
		r.fail(f.err)
	case f.failed != nil:
		r.fail(r.errorOf(f.failed))
	case len(f.frames) == 0: // a number or a word, a list without an error, or another kind of event
		r.keep(data)
		r.alive()
	case f.last:
		r.done()
	}
}

// alive adds an empty part, as a keep-alive, unless there is a part to return anyway.
func (r *repair) alive() {
	if len(r.out) == 0 {
		r.out = append(r.out, r.format.alive())
	}
}

// done ends a complete answer.
func (r *repair) done() { r.err = io.EOF }

// fail ends the answer with the endpoint's error.
func (r *repair) fail(e *llm.Error) { r.err = withHeader(e, r.header) }

// end ends the answer where reading ends.
func (r *repair) end(err error) {
	e := &llm.Error{Kind: llm.ErrTruncated, Message: fmt.Sprintf("the stream broke off after %d frames", r.frames)}
	switch {
	case !r.finished && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		r.err = err
		return
	case r.limit.N <= 0: // a retry would read all of it again
		e.Kind, e.Message, e.Err = llm.ErrLength, fmt.Sprintf("the answer has no end, after %d frames", r.frames), errTooBig
	case errors.Is(err, errTooBig):
		e.Message, e.Err = fmt.Sprintf("the answer is too big, after %d frames", r.frames), errTooBig
	case errors.Is(err, long.ErrTooMany):
		e.Kind, e.Message, e.Err = llm.ErrUnavailable, fmt.Sprintf("%v, after %d frames", err, r.frames), err
	case r.finished:
		r.done()
		return
	case r.event == eventError && len(r.data) > 0:
		e = r.errorOf(r.data)
	case r.frames == 0 && len(r.data) == 0 && len(r.stray) > 0:
		e.Kind, e.Message = llm.ErrUnavailable, "it answered with no event stream, but with: "+r.excerpt(r.stray)
	case !r.begun:
		e.Message = "the answer has no body"
	case len(r.stray) > 0:
		e.Message += ": " + r.excerpt(r.stray)
	}
	if !errors.Is(err, io.EOF) && e.Err == nil {
		e.Err = err
	}
	r.fail(e)
}
