package agenthub

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/transport"
)

// space is the name space of the ids that are derived here.
var space = kit.NewSpace("5c0de3a4-7d1b-5b0e-9c39-0b6f6f0e6f52")

// sender returns the sender that a peer is in Cortex.
func sender(peer string) string { return space.Sender("user:"+transport.PeerPrefix, "peer", peer) }

// ownContext is what the ids of conversations with peers begin with.
const ownContext = "agenthub-"

// contextID returns the conversation in Cortex for that of a peer: nobody else's.
func contextID(peer, theirs string) string { return ownContext + space.ID("context", peer, theirs) }

// messageID returns the id of a peer's message. Programs number their messages by seconds, so that the same id may be another message.
func messageID(peer, context, id, text string) string {
	sum := sha256.Sum256([]byte(text))
	return space.ID("message", peer, context, id, hex.EncodeToString(sum[:]))
}
