package transport

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// turnSpace is the name space of the ids of turns.
var turnSpace = uuid.MustParse("0d7c5c0e-53f6-5d0b-8f0f-3a1d7b8c2e64")

// TurnID returns the id of the turn that a message begins: of the event with this id, from this sender, in this conversation. Two
// senders may choose the same id for their messages, and whoever watches a conversation can read the ids of others; so the sender is
// part of a turn's name, and nobody can begin a turn that has the name of another one's (RFC 9562, UUID version 5).
func TurnID(tenant, contextID, from, messageID string) string {
	name := make([]byte, 0, len(tenant)+len(contextID)+len(from)+len(messageID)+8)
	for _, part := range [...]string{tenant, contextID, from, messageID} {
		name = strconv.AppendQuote(name, part) // what stands between quotes cannot end them
	}
	return uuid.NewSHA1(turnSpace, name).String()
}

// AgainID returns an id for an event that carries a message once more whose event had the message's id: within [DuplicateWindow] a transport
// would drop it under the old one. n tells it from others. Cortex takes both for the same, and answers again what it has answered.
func AgainID(messageID, n string) string { return messageID + "#" + n }

// MessageEventID returns the id of the event by which the message of e came first: its own, unless that is an [AgainID].
func MessageEventID(e *Event) string {
	if m, ok := Request(e); ok && m.ID != "" && strings.HasPrefix(e.ID, m.ID+"#") {
		return m.ID
	}
	return e.ID
}
