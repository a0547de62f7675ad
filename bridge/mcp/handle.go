package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
)

// handleOf returns the turn_id of a turn: "CONTEXT#MESSAGE". It says where the turn is, so that it is understood after a restart and by other
// processes. The sender is not in it: a handle names a turn of whoever shows it, and none of anybody else.
func handleOf(t client.Turn) string { return t.ContextID + "#" + t.MessageID }

// turnOf returns the caller's turn with this handle.
func (c *caller) turnOf(handle string) (client.Turn, error) {
	i := strings.LastIndexByte(handle, '#')
	if i < 0 || transport.CheckID(handle[:i]) != nil || transport.CheckID(handle[i+1:]) != nil {
		return client.Turn{}, fmt.Errorf("turn_id: %.100q is no id of a turn: take the one that ask or ask_agent returned", handle)
	}
	return client.Turn{ContextID: handle[:i], From: c.user(), MessageID: handle[i+1:]}, nil
}

// digest returns an id that follows from words.
func digest(words ...string) string {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	sum := sha256.Sum256(b)
	return "mcp-" + hex.EncodeToString(sum[:12])
}
