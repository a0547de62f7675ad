package vertex

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Bounds of the stored signatures, over all conversations.
const (
	maxSignature      = 64 << 10
	maxSignatures     = 4096
	maxSignatureBytes = 4 << 20
)

// signatures stores a model's signatures of its answers, by conversation and text: the model requires its signatures with the history. The zero value
// is empty. It is safe for concurrent use, and drops the least recently used.
type signatures struct {
	mu sync.Mutex
	by recent.Cache[signed, []byte]
}

// signed is the hash of a text of a conversation.
type signed [sha256.Size]byte

// newSigned returns a hash for a text of a conversation.
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

// get returns a signature, or nil.
func (s *signatures) get(of signed) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, _ := s.by.Get(of)
	return b
}
