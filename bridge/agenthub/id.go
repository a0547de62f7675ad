package agenthub

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// namespace is the name space of the ids that are derived here.
var namespace = uuid.MustParse("5c0de3a4-7d1b-5b0e-9c39-0b6f6f0e6f52")

// derived returns the id that follows from words.
func derived(words ...string) string {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	return uuid.NewSHA1(namespace, b).String()
}

// sender returns the sender that a peer is in Cortex.
func sender(peer string) string {
	const prefix = "user:agenthub/"
	if transport.CheckID(prefix+peer) != nil {
		return prefix + derived("peer", peer)
	}
	return prefix + peer
}

// contextID returns the conversation in Cortex for that of a peer: nobody else's.
func contextID(peer, theirs string) string { return "agenthub-" + derived("context", peer, theirs) }

// messageID returns the id of a peer's message. Programs number their messages by seconds, so that the same id may be another message.
func messageID(peer, context, id, text string) string {
	sum := sha256.Sum256([]byte(text))
	return derived("message", peer, context, id, hex.EncodeToString(sum[:]))
}
