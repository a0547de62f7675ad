package conversation

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 names it, and nothing is to be kept secret
	"strconv"

	"github.com/google/uuid"
)

// IDSpace is the name space of all derived ids.
var IDSpace = uuid.MustParse("5d1f1f0e-6a57-5b43-9d0c-0f7f6f2c9a11")

// ID returns the id of the index-th thing of this kind that entry seq sends. It depends on the conversation's life: after an erasure, a
// conversation with the same context id has other ids.
func (c *Conversation) ID(seq uint64, kind string, index int) string {
	if c.ids.prefix == nil || c.ids.life != c.Life { // an entry has a dozen ids
		c.ids.prefix, c.ids.life = idPrefix(c.Tenant, c.ContextID, c.Life), c.Life
	}
	return deriveID(c.ids.prefix, seq, kind, index)
}

// idNames caches the common prefix of the names from which the conversation's ids are made, for one life.
type idNames struct {
	life   string
	prefix []byte
}

// DeriveID returns the id of the index-th thing of this kind that entry seq of a conversation without a life sends. Since it follows from
// the log alone, sending the thing again is harmless (RFC 9562, UUID version 5).
func DeriveID(tenant, contextID string, seq uint64, kind string, index int) string {
	return deriveID(idPrefix(tenant, contextID, ""), seq, kind, index)
}

// idPrefix returns the part of a name before the kind. A life is put inside the quotes of the kind, followed by a space. Logs from before
// lives were recorded have none.
func idPrefix(tenant, contextID, life string) []byte {
	b := strconv.AppendQuote(strconv.AppendQuote(IDSpace[:len(IDSpace):len(IDSpace)], tenant), contextID)
	if life != "" {
		b = strconv.AppendQuote(b, life)
		b[len(b)-1] = ' '
	}
	return b
}

func deriveID(prefix []byte, seq uint64, kind string, index int) string {
	var stack [512]byte
	name := append(stack[:0], prefix...)
	at := len(name)
	name = strconv.AppendQuote(name, kind)
	if prefix[at-1] == ' ' {
		name = append(name[:at], name[at+1:]...) // the prefix has opened the quotes
	}
	name = strconv.AppendUint(append(name, ' '), seq, 10)
	name = strconv.AppendInt(append(name, ' '), int64(index), 10)
	sum := sha1.Sum(name) // as uuid.NewSHA1 does, with five allocations less
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|5<<4, id[8]&0x3f|0x80
	return id.String()
}
