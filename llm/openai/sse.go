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
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// maxLine bounds a line and a frame, in bytes. An answer may come in one of them.
	maxLine = 8 << 20
	// maxBody bounds a response, in bytes. A frame has some 300 bytes around a word or two.
	maxBody = 16 << 20
	// maxStray bounds what is kept of text that has no place in a stream: more than is shown, so that no secret in it is cut
	// in two before it is taken out.
	maxStray = 4 << 10
	// What comes behind [DONE], mostly nothing, is waited for so long and read so far: only a response that was read to its
	// end leaves a connection of HTTP/1.1 for the next call.
	maxRest, restTime = 4 << 10, 100 * time.Millisecond
)

// repair reads the body of a response, whatever the endpoint made of it, as what the SDK reads: frames of one line with one
// JSON object each, which has what is read of it and nothing else, then [DONE]. What an endpoint sends to show that it is
// there becomes a frame without anything in it. Everything else that a body can be ends it with an error, which the
// SDK hands on as it is: an [llm.Error] for what the endpoint says or does not say to the end, the reader's own for the
// end of ctx. In particular, io.EOF comes only behind [DONE], and [DONE] only when the endpoint said so or gave a reason
// for the answer's end.
type repair struct {
	body    io.Closer
	in      *bufio.Reader
	limit   *io.LimitedReader // behind in
	header  http.Header
	target  string   // the URL, for errors
	secrets []string // what must not be in them

	out      bytes.Buffer // repaired and not yet read
	err      error        // what comes behind it
	begun    bool         // something was there
	data     []byte       // of an event that is not complete
	event    string       // its name
	frames   int
	finished bool   // the answer has an end
	stray    []byte // the last data that was no frame; maybe it tells why there was no more
}

func newRepair(body io.ReadCloser, header http.Header, target string) *repair {
	limit := &io.LimitedReader{R: body, N: maxBody}
	return &repair{body: body, limit: limit, in: bufio.NewReaderSize(limit, 16<<10), header: header, target: target}
}

// Read implements [io.Reader]. It returns as soon as there is a frame.
func (r *repair) Read(p []byte) (int, error) {
	for r.out.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.step()
	}
	return r.out.Read(p)
}

// Close implements [io.Closer].
func (r *repair) Close() error {
	if errors.Is(r.err, io.EOF) {
		enough := time.AfterFunc(restTime, func() { _ = r.body.Close() }) // which ends the reading
		_, _ = io.CopyN(io.Discard, r.in, maxRest)
		enough.Stop()
	}
	return r.body.Close()
}

// step reads a line.
func (r *repair) step() {
	line, err := r.readLine()
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if !r.begun {
		line = r.begin(line)
	}
	if err == nil || len(line) > 0 {
		for part := range bytes.SplitSeq(line, []byte("\r")) { // a line end too
			if r.err == nil {
				r.take(part)
			}
		}
	}
	if err != nil && r.err == nil {
		r.end(err)
	}
}

func (r *repair) readLine() ([]byte, error) {
	var long []byte
	for {
		part, err := r.in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if long == nil && !full {
			return part, err
		}
		if len(long)+len(part) > maxLine {
			return nil, errTooBig
		}
		if long = append(long, part...); !full {
			return long, err
		}
	}
}

// errTooBig is for a line or a body beyond the bounds.
var errTooBig = errors.New("more than can be one answer")

// begin looks at the lines until the first that says something: that shows whether this is an event stream. If it is not, the
// body has been read.
func (r *repair) begin(line []byte) []byte {
	line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return nil
	}
	r.begun = true
	switch text[0] {
	case '{', '[':
		r.object(bytes.Clone(text)) // reading on overwrites line
		return nil
	case '<':
		page := bytes.Clone(text)
		rest, _ := io.ReadAll(io.LimitReader(r.in, maxErrorBody)) // what is there is enough
		r.fail(r.errorOf(append(page, rest...)))
		return nil
	}
	return line
}

// take reads one line, without its end.
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
	case "id", "retry": // of no use here
	default:
		// No field. Some frameworks put an error there, as it is.
		if line[0] != '{' || !r.frame(line) {
			r.keep(line)
		}
	}
}

// addData takes the value of a data line. Most frames are one line, and are done with it: not every endpoint sends the empty
// line behind, and the next may be long in coming.
func (r *repair) addData(value []byte) {
	if len(r.data) > 0 {
		if len(r.data)+len(value) >= maxLine {
			r.end(errTooBig)
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

// dispatch ends an event.
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
	default: // another kind of event, or a word to keep the connection alive
		r.keep(data)
		r.alive()
	}
}

// eventError is the name that some endpoints give to the event that ends a stream.
const eventError = "error"

// keep remembers text that has no place in a stream.
func (r *repair) keep(text []byte) { r.stray = append(r.stray[:0], text[:min(len(text), maxStray)]...) }

// excerpt is what is shown of text.
func (r *repair) excerpt(text []byte) string {
	return excerpt(hide(text[:min(len(text), maxStray)], r.secrets))
}

// errorOf is the error that body says. Of a large one it shows the beginning.
func (r *repair) errorOf(body []byte) *llm.Error {
	return errorOf(0, hide(body[:min(len(body), maxErrorBody)], r.secrets), r.target)
}

// frame hands on data if it is JSON, and returns false if not.
func (r *repair) frame(data []byte) bool {
	h, ok := readHead(data)
	switch {
	case !ok:
		return false
	case h.says(r.event):
		r.fail(r.errorOf(data))
	case data[0] != '{', !h.hasAnswer(): // a number or a word, a list without an error in it, or some other kind of event
		r.keep(data)
		r.alive()
	default:
		r.emit(h)
	}
	return true
}

// object reads a body that is JSON and no event stream: an error, or a whole answer of an endpoint that does not stream.
func (r *repair) object(start []byte) {
	rest := &io.LimitedReader{R: r.in, N: maxLine}
	var raw json.RawMessage
	err := json.NewDecoder(io.MultiReader(bytes.NewReader(start), rest)).Decode(&raw)
	var syntax *json.SyntaxError
	switch {
	case rest.N == 0:
		r.end(errTooBig)
		return
	case errors.As(err, &syntax):
		r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("it answered with what is no JSON: %s", r.excerpt(start))})
		return
	case err != nil:
		r.end(err)
		return
	}
	h, _ := readHead(raw)
	if h.Choices == nil || h.says("") {
		r.fail(r.errorOf(raw))
		return
	}
	if len(h.Choices) > 0 {
		h.Choices = h.Choices[:1]
		h.Choices[0].Delta = h.Choices[0].Message
	}
	if r.emit(h); r.err == nil {
		r.done()
	}
}

// emit writes a frame.
func (r *repair) emit(h *head) {
	for _, c := range h.Choices {
		if c.FinishReason == "error" {
			r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: "it ended the answer with an error, and does not say which"})
			return
		}
		r.finished = r.finished || c.FinishReason != ""
	}
	r.frames++
	r.write(h.reduced())
}

// alive writes a frame without anything in it: the endpoint said something, if only that it is there.
func (r *repair) alive() { r.write(&frame{Choices: []choice{}}) }

func (r *repair) write(f *frame) {
	r.out.WriteString("data: ")
	e := json.NewEncoder(&r.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(f) // its parts were JSON; it ends the line
	r.out.WriteByte('\n')
}

// done ends a complete answer.
func (r *repair) done() {
	r.out.WriteString("data: [DONE]\n\n")
	r.err = io.EOF
}

// fail ends the answer with what the endpoint says.
func (r *repair) fail(e *llm.Error) { r.err = withHeader(e, r.header) }

// end ends the answer where reading ends.
func (r *repair) end(err error) {
	e := &llm.Error{Kind: llm.ErrTruncated, Message: fmt.Sprintf("the stream broke off after %d frames", r.frames)}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		r.err = err
		return
	case r.limit.N <= 0: // trying again would read all of it again
		e.Kind, e.Message, e.Err = llm.ErrLength, fmt.Sprintf("the answer has no end, after %d frames", r.frames), errTooBig
	case errors.Is(err, errTooBig):
		e.Message, e.Err = fmt.Sprintf("the answer is too big, after %d frames", r.frames), errTooBig
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
