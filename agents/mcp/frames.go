package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// Bounds of a line of a server.
const (
	maxFrame  = 16 << 20  // bytes that are read
	maxDrop   = 256 << 20 // bytes of one that is not read: it may have no end
	maxDepth  = 9_999     // of what it says, for encoding/json
	lightest  = 8 << 10   // bytes: a shorter line is neither too heavy nor too deep
	frameEnds = 512       // bytes of the beginning and end of a long line, by which its call is known
)

// The beginnings and ends of responses, as SDKs write them. What is quoted in a response has no plain quotes, so it does not look like them.
var (
	headWithID = regexp.MustCompile(`^(data: ?)?\s*\{\s*(?:"jsonrpc":\s*"2\.0",\s*)?"id":\s*(\d{1,18}|"[\w-]{1,128}"),\s*(?:"jsonrpc":\s*"2\.0",\s*)?"(?:result|error)":`)
	headOnly   = regexp.MustCompile(`^(data: ?)?\s*\{\s*(?:"jsonrpc":\s*"2\.0",\s*)?"(?:result|error)":`)
	tailWithID = regexp.MustCompile(`,\s*"id":\s*(\d{1,18}|"[\w-]{1,128}")\s*(?:,\s*"jsonrpc":\s*"2\.0"\s*)?\}\s*$`)
)

var errEndless = errors.New("the server says too much: a line is too long")

// frames is what a server writes, line by line: messages, or a stream of events. The response to a call that is too long, too heavy or too deep becomes the failure of that call: the
// connection would end with it, and with that the calls and the open questions of all others.
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

// next returns the next line, or what there is of it at the end, or the failure that stands for it.
func (f *frames) next() ([]byte, error) {
	var line, tail []byte // tail is the end of a line that is too long, of which line is the beginning
	for n := 0; ; {
		piece, err := f.in.ReadSlice('\n')
		n += len(piece)
		switch {
		case n > maxDrop:
			return nil, errEndless
		case n <= maxFrame:
			line = append(line, piece...)
		default:
			if tail == nil {
				tail = line
				if line = bytes.Clone(line[:min(len(line), frameEnds)]); !headWithID.Match(line) && !headOnly.Match(line) {
					return nil, errEndless
				}
			}
			tail = slices.Concat(tail[max(0, len(tail)-frameEnds):], piece[max(0, len(piece)-frameEnds):])
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tail != nil:
			return unread(line, tail)
		case len(line) >= lightest && (nesting.Weight(line) > maxHeavy || nesting.Depth(line) > maxDepth):
			if failed, err := unread(line[:frameEnds], line[len(line)-frameEnds:]); err == nil {
				return failed, nil
			}
			return line, nil // what cannot be done with it is told
		default:
			return line, err
		}
	}
}

// unread returns the failure of the call to which a line is the response, by the line's beginning and end.
func unread(head, tail []byte) ([]byte, error) {
	at := headWithID.FindSubmatch(head)
	if at == nil {
		begin, end := headOnly.FindSubmatch(head), tailWithID.FindSubmatch(tail)
		if begin == nil || end == nil {
			return nil, errEndless
		}
		at = [][]byte{nil, begin[1], end[1]}
	}
	return fmt.Appendf(nil, `%s{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the server's answer is too large to be read: what was asked of it may be done all the same"}}`+"\n", at[1], at[2]), nil
}
