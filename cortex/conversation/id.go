package conversation

import (
	"strconv"

	"github.com/google/uuid"
)

// idSpace is the name space of all derived ids.
var IDSpace = uuid.MustParse("5d1f1f0e-6a57-5b43-9d0c-0f7f6f2c9a11")

// ID returns the id of the index-th thing of this kind that entry seq sends.
func (c *Conversation) ID(seq uint64, kind string, index int) string {
	if c.Life != "" { // those of the one of the same name that was erased are others
		kind = c.Life + " " + kind
	}
	return DeriveID(c.Tenant, c.ContextID, seq, kind, index)
}

// DeriveID returns the id of the index-th thing of this kind that entry seq of a conversation sends. Since it follows
// from the log alone, sending the thing again is harmless (RFC 9562, UUID version 5).
func DeriveID(tenant, contextID string, seq uint64, kind string, index int) string {
	name := make([]byte, 0, len(tenant)+len(contextID)+len(kind)+48)
	for _, part := range []string{tenant, contextID, kind} {
		name = strconv.AppendQuote(name, part)
	}
	name = strconv.AppendUint(append(name, ' '), seq, 10)
	name = strconv.AppendInt(append(name, ' '), int64(index), 10)
	return uuid.NewSHA1(IDSpace, name).String()
}
