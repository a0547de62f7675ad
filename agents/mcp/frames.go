package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// Bounds of a message of a server.
const (
	maxFrame   = 16 << 20  // bytes that are read
	maxDrop    = 256 << 20 // bytes of one that is not read: it may have no end
	maxDepth   = 1000      // of what it says, for the SDK
	maxAsked   = 1 << 20   // of a request or notification, as maxHeavy is of a response: many of them may wait for users
	maxOutline = 1 << 10   // bytes, see [outline]
	maxBeside  = 64 << 10  // bytes of an event beside its message, which has as many less: the SDK bounds both together
)

// Why a message is not given to the SDK.
const (
	tooLarge  = "too large to be read"
	tooDeep   = "nested too deep to be read"
	notJSON   = "not JSON"
	noMessage = "no message of JSON-RPC"
	cutOff    = "cut off"
)

var errEndless = errors.New("the server says too much: a line is too long")

// framing is how the messages of a server are told apart.
type framing int

const (
	inLines  framing = iota // one in each line
	inEvents                // one in each event of a stream
	inBody                  // one
)

// frames is what a server writes: messages in one form. A response that the SDK would not read becomes the failure of its call, a request one that nobody knows, which the server is told,
// and what belongs to nobody is skipped: the connection would end with it, and with that the calls and the open questions of all others.
type frames struct {
	io.Closer
	in      *bufio.Reader
	form    framing
	old     bool                         // events are those of the older transport, whose client reads an event of any name, and an empty one, as a message
	call    func() (jsonrpc.ID, bool)    // that a body answers; nil: none is known
	skipped func(why string, length int) // is told what is skipped
	pace    *rate.Limiter                // of skipped lines, which nobody else counts; nil: none
	rest    []byte                       // of a message, to be read
	err     error                        // behind it
}

func newFrames(of io.ReadCloser, in framing, skipped func(string, int)) *frames {
	f := &frames{Closer: of, in: bufio.NewReaderSize(of, 64<<10), form: in, skipped: skipped}
	if in == inLines {
		f.pace = newPace()
	}
	return f
}

// Read implements [io.Reader].
func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		if f.form == inEvents {
			f.rest, f.err = f.event()
		} else {
			f.rest, f.err = f.next()
		}
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) == 0 {
		f.rest = nil
	}
	return n, nil
}

// next returns the next line, or the body, or what stands for it; nothing if it is skipped.
func (f *frames) next() ([]byte, error) {
	m := message{most: maxFrame}
	for {
		piece, err := f.in.ReadSlice('\n')
		if err := m.add(piece, len(piece)); err != nil {
			return nil, err
		}
		if errors.Is(err, bufio.ErrBufferFull) || err == nil && f.form == inBody {
			continue
		}
		if f.call != nil && !errors.Is(err, io.EOF) { // the SDK would end the connection; the call may have been canceled
			return f.instead(&outline{}, cutOff, m.n), io.EOF
		}
		if len(trim(m.text)) == 0 && m.long == nil && f.call == nil {
			return m.text, err
		}
		return f.read(&m), err
	}
}

// event returns the next event. Its comments, and lines that name no field, are left out.
func (f *frames) event() ([]byte, error) {
	m := message{most: maxFrame - 2*maxBeside}
	var fields []byte
	var field, name string
	for begins, others := true, 0; ; {
		piece, err := f.in.ReadSlice('\n')
		value := piece
		if begins {
			before, after, named := bytes.Cut(piece, []byte(":"))
			if value, field = after, ""; named {
				field = string(before[:min(len(before), len("event")+1)])
			}
		}
		switch {
		case field == "data":
			if err := m.add(value, len(piece)); err != nil {
				return nil, err
			}
		case field != "":
			if fields = append(fields, piece...); field == "event" && begins {
				name = string(bytes.TrimSpace(value[:min(len(value), maxOutline)]))
			}
			fallthrough
		default:
			if others += len(piece); others > maxFrame || len(fields) > maxBeside {
				return nil, errEndless
			}
		}
		ended := begins && err == nil && len(bytes.TrimRight(piece, "\r\n")) == 0
		if begins = !errors.Is(err, bufio.ErrBufferFull); !ended && (!begins || err == nil) {
			continue
		}
		text, isMessage := trim(m.text), name == "" || name == "message"
		switch {
		case m.long != nil && !isMessage:
			return nil, errEndless
		case isMessage && (m.long != nil || len(text) > 0):
			text = trim(f.read(&m))
		}
		if f.old && ended && (len(text) == 0 || !isMessage && name != "endpoint") {
			return []byte("\n"), err
		}
		if len(text) > 0 {
			fields = append(fields, "data:"...)
			fields = append(fields, bytes.ReplaceAll(text, []byte("\n"), []byte("\ndata:"))...)
			fields = append(fields, '\n')
		}
		if ended {
			fields = append(fields, '\n')
		}
		return fields, err
	}
}

// message is one that comes in pieces.
type message struct {
	most, n int // bytes of it that are kept, and that there were
	text    []byte
	long    *outline // instead of text, if that is too long
}

// add adds a piece, which was written in n bytes.
func (m *message) add(piece []byte, n int) error {
	if m.n += n; m.n > maxDrop {
		return errEndless
	}
	if m.n > m.most && m.long == nil {
		m.long, m.text = outlineOf(m.text), nil
	}
	if m.long == nil {
		m.text = append(m.text, piece...)
		return nil
	}
	if m.long.add(piece); len(m.long.text) > maxOutline {
		return errEndless
	}
	return nil
}

// read returns what the SDK reads for a message.
func (f *frames) read(m *message) []byte {
	if m.long != nil {
		return f.instead(m.long, tooLarge, m.n)
	}
	text := trim(m.text)
	switch {
	case f.form != inLines:
		return f.readOne(m.text)
	case text[0] != '[':
		if bytes.HasSuffix(m.text, []byte("\n")) {
			text = append(text, '\n') // the SDK refuses a space before it
		}
		return f.readOne(text)
	}
	var each []json.RawMessage // the SDK would end the connection with any of them
	if nesting.Weight(text) > maxHeavy {
		f.skip(tooLarge, len(text))
	} else if json.Unmarshal(text, &each) != nil {
		f.skip(notJSON, len(text))
	} else if len(each) > messagesAtOnce {
		f.skip(tooLarge, len(text))
		each = nil
	}
	var all []byte
	for _, one := range each {
		if b := f.readOne(one); len(b) > 0 {
			all = append(append(all, b...), '\n')
		}
	}
	return all
}

// trim returns a text without what is space in JSON.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

func (f *frames) readOne(text []byte) []byte {
	if why := f.fault(text); why != "" {
		return f.instead(outlineOf(text), why, len(text))
	}
	return text
}

// fault returns why the SDK does not get a message; "" if it does.
func (f *frames) fault(text []byte) string {
	weight := nesting.Weight(text)
	switch {
	case weight > maxHeavy:
		return tooLarge
	case nesting.Depth(text) > maxDepth:
		return tooDeep
	case f.form == inLines && !json.Valid(text): // the SDK reads lines by encoding/json first
		return notJSON
	}
	switch m, err := jsonrpc.DecodeMessage(text); m.(type) {
	case *jsonrpc.Request:
		if weight > maxAsked {
			return tooLarge
		}
	case nil:
		if err != nil && !json.Valid(text) {
			return notJSON
		}
		return noMessage
	}
	return ""
}

// instead returns what stands for a message; nothing if it is skipped.
func (f *frames) instead(o *outline, why string, length int) []byte {
	if f.call != nil {
		if id, ok := f.call(); ok {
			if b, err := jsonrpc.EncodeMessage(failed(id, why)); err == nil {
				return b
			}
		}
	}
	if b := o.standIn(why); b != nil {
		return append(b, '\n')
	}
	f.skip(why, length)
	return nil
}

func (f *frames) skip(why string, length int) {
	f.skipped(why, length)
	if f.pace != nil {
		_ = keepPace(context.Background(), f.pace, 1)
	}
}

// failed is the failure of a call whose response is not read.
func failed(id jsonrpc.ID, why string) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: "the server's answer is " + why + ": what was asked of it may be done all the same",
	}}
}

// outline is a message without what is nested in it, such as {"jsonrpc":"2.0","id":1,"result":{}}: that says which message it is, wherever its id is.
type outline struct {
	text            []byte // its beginning
	depth           int
	quoted, escaped bool
}

func outlineOf(line []byte) *outline {
	o := &outline{}
	o.add(line)
	return o
}

// add reads on.
func (o *outline) add(piece []byte) {
	for _, c := range piece {
		before := o.depth
		switch {
		case o.escaped:
			o.escaped = false
		case o.quoted:
			o.escaped, o.quoted = c == '\\', c != '"'
		case c == '"':
			o.quoted = true
		case c == '{' || c == '[':
			o.depth++
		case c == '}' || c == ']':
			o.depth--
		}
		if min(before, o.depth) <= 1 && len(o.text) <= maxOutline {
			o.text = append(o.text, c)
		}
	}
}

// member finds what an outline says of its message, which need not be JSON: Python writes NaN, and a program that ends, half a line.
var member = regexp.MustCompile(`(?s)[{,]\s*"(id|method|result|error)"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,"{}\[\]]*)`)

// standIn returns what stands for a message that is not read, and nil if it is not known which one it is.
func (o *outline) standIn(why string) []byte {
	text := bytes.TrimLeft(o.text, " \t\r\n\ufeff")
	if !bytes.HasPrefix(text, []byte("{")) {
		return nil // words that have a message in them are none
	}
	text = text[:bytes.LastIndexAny(text, "{}[],\" \t\r\n")+1] // the last value may be cut off
	has := map[string]string{}
	for _, m := range member.FindAllSubmatch(text, -1) {
		key, value := string(m[1]), string(m[2])
		if is, twice := has[key]; twice && key == "id" && is != value {
			return nil
		}
		has[key] = value
	}
	_, asks := has["method"]
	_, done := has["result"]
	_, failure := has["error"]
	if !asks && !done && !failure {
		return nil
	}
	m, err := jsonrpc.DecodeMessage(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, has["id"]))
	answer, ok := m.(*jsonrpc.Response)
	if err != nil || !ok {
		return nil
	}
	m = failed(answer.ID, why)
	if asks {
		m = &jsonrpc.Request{ID: answer.ID, Method: "a request that is " + why}
	}
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return nil
	}
	return b
}
