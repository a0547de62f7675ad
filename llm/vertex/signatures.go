package vertex

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Bounds of what is remembered, over all conversations.
const (
	maxSignature      = 64 << 10
	maxSignatures     = 4096
	maxSignatureBytes = 4 << 20
)

// signatures remembers what a model signed its answers with, by conversation and text: it wants to see its signatures
// again with the history. The zero value is empty. It is safe for concurrent use, and forgets what was not asked for
// longest.
type signatures struct {
	mu sync.Mutex
	by recent.Cache[signed, []byte]
}

// signed stands for a text of a conversation.
type signed [sha256.Size]byte

// newSigned returns a hash to write a text of a conversation to.
func newSigned(conversation string) hash.Hash {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(conversation))))
	h.Write([]byte(conversation))
	return h
}

func (s *signatures) put(of signed, b []byte) {
	if len(b) == 0 || len(b) > maxSignature {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.by.Put(of, b, len(b)); s.by.Len() > maxSignatures || s.by.Size() > maxSignatureBytes; s.by.Drop() {
	}
}

// get returns nil when there is none.
func (s *signatures) get(of signed) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, _ := s.by.Get(of)
	return b
}
