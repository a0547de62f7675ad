package kit

import (
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Space is the name space of the ids that a bridge derives from those of the other side. Each bridge has one of its own, which never changes: after a
// restart the same ids must follow.
type Space uuid.UUID

// NewSpace returns the name space with an id, a UUID. It panics if it is none.
func NewSpace(id string) Space { return Space(uuid.MustParse(id)) }

// ID returns the id that follows from words, a UUID of version 5 (RFC 9562, section 5.5). Other words give another id, wherever one ends and the next begins.
func (s Space) ID(words ...string) string { return s.id(words).String() }

// Hex returns the id that follows from words as 32 hexadecimal digits.
func (s Space) Hex(words ...string) string {
	id := s.id(words)
	return hex.EncodeToString(id[:])
}

func (s Space) id(words []string) uuid.UUID {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	return uuid.NewSHA1(uuid.UUID(s), b)
}

// Sender returns the sender that somebody with a name on the other side is in Cortex: the name behind a prefix, or, if that can be no id, what follows
// from it and from kind.
func (s Space) Sender(prefix, kind, name string) string {
	if transport.CheckID(prefix+name) != nil {
		return prefix + s.ID(kind, name)
	}
	return prefix + name
}
