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

	"github.com/cortex-orchestrator/cortex/llm"
)

const (
	// maxLine bounds a line and a frame, in bytes. An answer may come in one of them.
	maxLine = 8 << 20
	// maxBody bounds a response, in bytes. A frame has some 300 bytes around a word or two.
	maxBody = 128 << 20
)

// repair reads the body of a response, whatever the endpoint made of it, as what the SDK reads without loss: frames of one
// line with one JSON object each, then [DONE]. Everything else that a body can be ends it with an error, which the
// SDK hands on as it is: an [llm.Error] for what the endpoint says or does not say to the end, the reader's own for the
// end of ctx. In particular, io.EOF comes only behind [DONE], and [DONE] only when the endpoint said so or gave a reason
// for the answer's end.
type repair struct {
	body   io.Closer
	in     *bufio.Reader
	limit  *io.LimitedReader // behind in
	header http.Header
	target string // the URL, for errors

	out      bytes.Buffer // repaired and not yet read
	err      error        // what comes behind it
	begun    bool         // something was there
	data     []byte       // of an event that is not complete
	event    string       // its name
	frames   int
	finished bool   // the answer has an end
	stray    string // the last data that was no frame; maybe it tells why there was no more
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
func (r *repair) Close() error { return r.body.Close() }

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
		r.fail(errorOf(0, append(page, rest...), r.target))
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
	case "", "id", "retry": // a comment, or what is of no use here
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
		r.fail(errorOf(0, data, r.target))
	case data[0] == '{':
		r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("it sent what is no JSON: %s", excerpt(data))})
	default: // another kind of event, or a word to keep the connection alive
		r.keep(data)
	}
}

// eventError is the name that some endpoints give to the event that ends a stream.
const eventError = "error"

// keep remembers text that has no place in a stream.
func (r *repair) keep(text []byte) { r.stray = excerpt(text) }

// head is what the repair has to know of a frame.
type head struct {
	Object, Type string
	Error        json.RawMessage
	Choices      []struct {
		FinishReason string `json:"finish_reason"`
		Error        json.RawMessage
		Message      json.RawMessage
	}
	Model json.RawMessage
	Usage json.RawMessage
}

// frame hands on data if it is JSON, and returns false if not.
func (r *repair) frame(data []byte) bool {
	h, ok := readHead(data)
	if !ok {
		return false
	}
	if h.says(r.event) {
		r.fail(errorOf(0, data, r.target))
		return true
	}
	if data[0] != '{' { // a number or a word, or a list without an error in it
		r.keep(data)
		return true
	}
	for _, c := range h.Choices {
		if c.FinishReason == "error" {
			r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: "it ended the answer with an error, and does not say which"})
			return true
		}
		r.finished = r.finished || c.FinishReason != ""
	}
	if h.Choices == nil && !isSet(h.Usage) { // some other kind of event
		r.keep(data)
		return true
	}
	r.emit(data)
	return true
}

// readHead returns false if data is no JSON. A field that has another type than usual counts as missing.
func readHead(data []byte) (*head, bool) {
	var h head
	var other *json.UnmarshalTypeError
	err := json.Unmarshal(data, &h)
	if data[0] == '[' && err != nil && errors.As(err, &other) {
		var list []head // Google's
		if json.Unmarshal(data, &list) == nil && len(list) > 0 {
			return &list[0], true
		}
	}
	return &h, err == nil || errors.As(err, &other)
}

// says reports whether the frame, of an event of this name, is an error.
func (h *head) says(event string) bool {
	if isSet(h.Error) {
		return true
	}
	for _, c := range h.Choices {
		if isSet(c.Error) {
			return true
		}
	}
	return len(h.Choices) == 0 && (h.Object == "error" || h.Type == "error" || event == eventError)
}

// isSet reports whether raw is a value that says something.
func isSet(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", "false", `""`:
		return false
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
		r.fail(&llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("it answered with what is no JSON: %s", excerpt(start))})
		return
	case err != nil:
		r.end(err)
		return
	}
	h, _ := readHead(raw)
	if h.Choices == nil || h.says("") {
		r.fail(errorOf(0, raw, r.target))
		return
	}
	type choice struct {
		Delta        json.RawMessage `json:"delta,omitempty"`
		FinishReason string          `json:"finish_reason"`
	}
	whole := struct {
		Model   json.RawMessage `json:"model,omitempty"`
		Choices []choice        `json:"choices"`
		Usage   json.RawMessage `json:"usage,omitempty"`
	}{Model: h.Model, Usage: h.Usage}
	if len(h.Choices) > 0 {
		whole.Choices = []choice{{Delta: h.Choices[0].Message, FinishReason: h.Choices[0].FinishReason}}
	}
	frame, err := json.Marshal(whole)
	if err != nil { // its parts were JSON
		r.end(err)
		return
	}
	if r.frame(frame); r.err == nil {
		r.done()
	}
}

// emit writes a frame.
func (r *repair) emit(data []byte) {
	r.frames++
	r.out.WriteString("data: ")
	if bytes.IndexByte(data, '\n') < 0 {
		r.out.Write(data)
	} else {
		_ = json.Compact(&r.out, data) // it is JSON
	}
	r.out.WriteString("\n\n")
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
	switch tooBig := errors.Is(err, errTooBig) || r.limit.N <= 0; {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		r.err = err
		return
	case tooBig:
		e.Message, e.Err = fmt.Sprintf("the answer is too big, after %d frames", r.frames), errTooBig
	case r.finished:
		r.done()
		return
	case r.event == eventError && len(r.data) > 0:
		e = errorOf(0, r.data, r.target)
	case r.frames == 0 && len(r.data) == 0 && r.stray != "":
		e.Kind, e.Message = llm.ErrUnavailable, "it answered with no event stream, but with: "+r.stray
	case !r.begun:
		e.Message = "the answer has no body"
	case r.stray != "":
		e.Message += ": " + r.stray
	}
	if !errors.Is(err, io.EOF) && e.Err == nil {
		e.Err = err
	}
	r.fail(e)
}
