package vertex

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
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
	mu    sync.Mutex
	by    map[signed]*list.Element
	order list.List // of *signature, the latest first
	bytes int
}

// signed stands for a text of a conversation.
type signed [sha256.Size]byte

type signature struct {
	of    signed
	bytes []byte
}

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
	if s.by == nil {
		s.by = make(map[signed]*list.Element)
	}
	if e, ok := s.by[of]; ok {
		s.remove(e)
	}
	s.by[of] = s.order.PushFront(&signature{of, b})
	s.bytes += len(b)
	for len(s.by) > maxSignatures || s.bytes > maxSignatureBytes {
		s.remove(s.order.Back())
	}
}

// remove needs s.mu.
func (s *signatures) remove(e *list.Element) {
	old := s.order.Remove(e).(*signature)
	delete(s.by, old.of)
	s.bytes -= len(old.bytes)
}

// get returns nil when there is none.
func (s *signatures) get(of signed) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.by[of]
	if !ok {
		return nil
	}
	s.order.MoveToFront(e)
	return e.Value.(*signature).bytes
}
