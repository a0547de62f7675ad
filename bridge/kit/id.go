package kit

import (
	"strconv"

	"github.com/google/uuid"
)

// Space is the name space of the ids that a bridge derives from those of the other side. Each bridge has one of its own, which never changes: after a
// restart the same ids must follow.
type Space uuid.UUID

// NewSpace returns the name space with an id, a UUID. It panics if it is none.
func NewSpace(id string) Space { return Space(uuid.MustParse(id)) }

// ID returns the id that follows from words, a UUID of version 5 (RFC 9562, section 5.5). Other words give another id, wherever one ends and the next begins.
func (s Space) ID(words ...string) string {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	return uuid.NewSHA1(uuid.UUID(s), b).String()
}
