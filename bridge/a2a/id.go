package a2a

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Ids, in bytes before they are written as hexadecimal numbers.
const (
	placeSize = 10 // of a conversation, among the caller's
	wordSize  = 8  // of a message, in its conversation
	markSize  = 6  // says whose it is
)

// idPrefix begins the ids of conversations and messages that are made here.
const idPrefix = "a2a-"

// digest returns bytes that follow from words.
func digest(n int, words ...string) []byte {
	var b []byte
	for _, w := range words {
		b = strconv.AppendQuote(b, w)
	}
	sum := sha256.Sum256(b)
	return sum[:n]
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// at returns the caller's conversation at a place. Another caller's at the same place is another one.
func (c *caller) at(place []byte) string {
	return idPrefix + hex.EncodeToString(place) + hex.EncodeToString(digest(markSize, "conversation", c.Tenant, c.user(), c.agent, string(place)))
}

// placeOf returns where a context of the caller is. own is false for an id that the client has chosen itself: it stands for a conversation
// that messages of others get to only if they begin it; the caller's do not get there then, see [transport.MetaOwn].
func (c *caller) placeOf(contextID string) (place []byte, own bool) {
	if text, ok := strings.CutPrefix(contextID, idPrefix); ok && len(text) == 2*(placeSize+markSize) {
		if b, err := hex.DecodeString(text); err == nil && c.at(b[:placeSize]) == contextID {
			return b[:placeSize], true
		}
	}
	return digest(placeSize, "chosen", c.Tenant, c.user(), c.agent, contextID), false
}

// taskID returns the id of the task that the message with this word begins.
func (c *caller) taskID(place, word []byte) a2a.TaskID {
	mark := digest(markSize, "task", c.Tenant, c.user(), c.agent, string(place), string(word))
	return a2a.TaskID(hex.EncodeToString(place) + hex.EncodeToString(word) + hex.EncodeToString(mark))
}

// locate returns where a task is: its conversation, and the message that it begins with. It returns false for the id of no task of the caller's.
func (c *caller) locate(id a2a.TaskID) (contextID, messageID string, ok bool) {
	b, err := hex.DecodeString(string(id))
	if err != nil || len(b) != placeSize+wordSize+markSize {
		return "", "", false
	}
	place, word := b[:placeSize], b[placeSize:placeSize+wordSize]
	if c.taskID(place, word) != id {
		return "", "", false
	}
	return c.at(place), messageID0(word), true
}

// messageID0 returns the id of the message that begins a task.
func messageID0(word []byte) string { return idPrefix + hex.EncodeToString(word) }

// rootOf returns the word of the message that began the task of a message, with this id; false for a message that came another way.
func rootOf(messageID string) (word []byte, ok bool) {
	text, ok := strings.CutPrefix(messageID, idPrefix)
	if !ok {
		return nil, false
	}
	text, _, _ = strings.Cut(text, ".")
	word, err := hex.DecodeString(text)
	return word, err == nil && len(word) == wordSize
}
