package mcp

import (
	"bytes"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// maxHeavy bounds what a message of a server takes when it is decoded, in bytes, as far as that can be estimated: one of small objects takes fifty times
// its length, and is decoded more than once.
const maxHeavy = 32 << 20

var errHeavy = fmt.Errorf("the server says too much: a message takes more than %d MiB when it is decoded", maxHeavy>>20)

// isHeavy reports whether what a message says is too heavy to be decoded.
func isHeavy(m jsonrpc.Message) bool {
	switch m := m.(type) {
	case *jsonrpc.Request:
		return nesting.Weight(m.Params) > maxHeavy
	case *jsonrpc.Response:
		return nesting.Weight(m.Result) > maxHeavy
	}
	return false
}

// scale weighs the body of a response: one message or, if it is a stream of events, one in each.
type scale struct {
	of     nesting.Scale
	events bool
	line   bool // the present line of a stream has something
	ended  int  // events of a stream that have ended, and empty ones
}

// takeEnded returns how many events have ended since it was last called.
func (s *scale) takeEnded() int {
	n := s.ended
	s.ended = 0
	return n
}

// add weighs the next piece, and returns an error when a message is too heavy.
func (s *scale) add(piece []byte) error {
	for rest := piece; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		s.line = s.line || len(bytes.TrimRight(line, "\r")) > 0
		s.of.Write(rest[:len(rest)-len(after)])
		if s.events && ended && !s.line { // an empty line ends an event
			s.of = nesting.Scale{}
			s.ended++
		}
		if !s.events && s.of.Weight > maxHeavy { // events are bounded by frames, one message at a time
			return errHeavy
		}
		s.line = s.line && !ended
		rest = after
	}
	return nil
}
