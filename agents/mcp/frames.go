package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// Bounds of a line of a server.
const (
	maxFrame   = 16 << 20  // bytes that are read
	maxDrop    = 256 << 20 // bytes of one that is not read: it may have no end
	maxDepth   = 9_999     // of what it says, for encoding/json
	maxAsked   = 1 << 20   // of a request or notification, as maxHeavy is of a response: many of them may wait for users
	lightest   = 8 << 10   // bytes: a shorter line is neither too heavy nor too deep
	maxOutline = 1 << 10   // bytes, see [outline]
)

var errEndless = errors.New("the server says too much: a line is too long")

// frames is what a server writes, line by line: messages, or a stream of events. A response that is too long, too heavy or too deep becomes the failure of its call, and a request or
// notification one that nobody knows, which the server is told: the connection would end with it, and with that the calls and the open questions of all others.
type frames struct {
	io.Closer
	in   *bufio.Reader
	rest []byte // of a line, to be read
}

func newFrames(of io.ReadCloser) *frames {
	return &frames{Closer: of, in: bufio.NewReaderSize(of, 64<<10)}
}

// Read implements [io.Reader].
func (f *frames) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		line, err := f.next()
		if len(line) == 0 {
			return 0, err
		}
		f.rest = line
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; len(f.rest) == 0 {
		f.rest = nil
	}
	return n, nil
}

// next returns the next line, or what there is of it at the end, or what stands for it.
func (f *frames) next() ([]byte, error) {
	var line []byte
	var long *outline // of a line that is not kept
	for n := 0; ; {
		piece, err := f.in.ReadSlice('\n')
		if n += len(piece); n > maxDrop {
			return nil, errEndless
		}
		if n > maxFrame && long == nil {
			long, line = outlineOf(line), nil
		}
		if long != nil {
			long.add(piece)
		} else {
			line = append(line, piece...)
		}
		switch {
		case long != nil && len(long.text) > maxOutline:
			return nil, errEndless
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long != nil:
			if line = long.standIn(true); line == nil {
				return nil, errEndless
			}
			return line, nil
		case len(line) >= lightest:
			deep, weight := nesting.Depth(line) > maxDepth, nesting.Weight(line)
			if !deep && weight <= maxAsked {
				break
			}
			if other := outlineOf(line).standIn(deep || weight > maxHeavy); other != nil {
				return other, nil
			}
		}
		return line, err // what cannot be done with it is told
	}
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

// standIn returns what stands for a message that is too large, and nil if it is not known which one it is, or it is a response and those are not too large.
func (o *outline) standIn(responses bool) []byte {
	text, isEvent := bytes.CutPrefix(o.text, []byte("data:"))
	var m struct {
		ID, Method, Result, Error json.RawMessage
	}
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	begin := ""
	if isEvent {
		begin = "data: "
	}
	switch {
	case m.Method != nil && m.ID != nil:
		return fmt.Appendf(nil, `%s{"jsonrpc":"2.0","id":%s,"method":"a request that is too large to be read"}`+"\n", begin, m.ID)
	case m.Method != nil:
		return fmt.Appendf(nil, `%s{"jsonrpc":"2.0","method":"a notification that is too large to be read"}`+"\n", begin)
	case responses && m.ID != nil && (m.Result != nil || m.Error != nil):
		return fmt.Appendf(nil, `%s{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the server's answer is too large to be read: what was asked of it may be done all the same"}}`+"\n", begin, m.ID)
	}
	return nil
}
