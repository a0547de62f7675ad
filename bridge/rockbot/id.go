package rockbot

import (
	"encoding/hex"
	"strconv"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

// namespace is the name space of the ids that are derived here.
var namespace = uuid.MustParse("2f1d5c0a-9b3e-5e6c-8a53-3f7f0b1c9d44")

func derivedUUID(words ...string) uuid.UUID {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	return uuid.NewSHA1(namespace, b)
}

// derived returns the id that follows from words.
func derived(words ...string) string { return derivedUUID(words...).String() }

// derivedHex is derived in the 32 digits that RockBot's ids have.
func derivedHex(words ...string) string {
	id := derivedUUID(words...)
	return hex.EncodeToString(id[:])
}

// sender returns the sender that a caller is in Cortex. No agent of Cortex has such a name.
func sender(source string) string {
	const prefix = "rockbot:"
	if transport.CheckID(prefix+source) != nil {
		return prefix + derived("source", source)
	}
	return prefix + source
}
