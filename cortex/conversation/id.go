package conversation

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 names it, and nothing is to be kept secret
	"strconv"

	"github.com/google/uuid"
)

// IDSpace is the name space of all derived ids.
var IDSpace = uuid.MustParse("5d1f1f0e-6a57-5b43-9d0c-0f7f6f2c9a11")

// ID returns the id of the index-th thing of this kind that entry seq sends. The conversation's life is part of it: one that was erased and
// began again under the same context id has other ids.
func (c *Conversation) ID(seq uint64, kind string, index int) string {
	return deriveID(c.Tenant, c.ContextID, c.Life, seq, kind, index)
}

// DeriveID returns the id of the index-th thing of this kind that entry seq of a conversation sends. Since it follows
// from the log alone, sending the thing again is harmless (RFC 9562, UUID version 5).
func DeriveID(tenant, contextID string, seq uint64, kind string, index int) string {
	return deriveID(tenant, contextID, "", seq, kind, index)
}

// deriveID is DeriveID with life, where there is one, and a space before kind. A log that began before lives were kept has none.
func deriveID(tenant, contextID, life string, seq uint64, kind string, index int) string {
	var stack [512]byte
	name := append(stack[:0], IDSpace[:]...)
	name = strconv.AppendQuote(strconv.AppendQuote(name, tenant), contextID)
	if life != "" {
		name = strconv.AppendQuote(name, life)
		name[len(name)-1] = ' '
		at := len(name)
		name = strconv.AppendQuote(name, kind)
		name = append(name[:at], name[at+1:]...) // without its first quote, as both together are quoted
	} else {
		name = strconv.AppendQuote(name, kind)
	}
	name = strconv.AppendUint(append(name, ' '), seq, 10)
	name = strconv.AppendInt(append(name, ' '), int64(index), 10)
	sum := sha1.Sum(name) // as uuid.NewSHA1 does, which takes five allocations; an entry has a dozen ids
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|5<<4, id[8]&0x3f|0x80
	return id.String()
}
