package transport

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// turnSpace is the name space of the ids of turns.
var turnSpace = uuid.MustParse("0d7c5c0e-53f6-5d0b-8f0f-3a1d7b8c2e64")

// TurnID returns the id of the turn that a message begins: that of the event with this id, from this sender, in this conversation. Two senders may
// choose the same id for their messages, and a participant of a conversation can read the ids of others; so the sender is part of the name, and
// nobody can begin a turn with the id of another one's (RFC 9562, UUID version 5).
func TurnID(tenant, contextID, from, messageID string) string {
	name := make([]byte, 0, len(tenant)+len(contextID)+len(from)+len(messageID)+8)
	for _, part := range [...]string{tenant, contextID, from, messageID} {
		name = strconv.AppendQuote(name, part) // a quoted text cannot end the quotes
	}
	return uuid.NewSHA1(turnSpace, name).String()
}

// AgainID returns an id for an event that repeats a message, whose first event had the message's id: within [DuplicateWindow] a transport would drop
// it under the old id. n distinguishes repetitions. Cortex treats them as the same message, and repeats an answer that it has given.
func AgainID(messageID, n string) string { return messageID + "#" + n }

// MessageEventID returns the id of the event with which the message of e came first: its own, unless that is an [AgainID].
func MessageEventID(e *Event) string {
	if m, ok := Request(e); ok && m.ID != "" && strings.HasPrefix(e.ID, m.ID+"#") {
		return m.ID
	}
	return e.ID
}

// Original returns e with the id under which its message was first sent, see [MessageEventID]. A message that its sender repeats, such as a restarted
// agent, is one with the first. It returns e itself if that is its id, and changes nothing of it.
func Original(e *Event) *Event {
	id := MessageEventID(e)
	if id == e.ID {
		return e
	}
	first := *e
	first.ID = id
	return &first
}
