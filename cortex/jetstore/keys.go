package jetstore

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// A server's files contain old values of a note long after it was replaced or deleted, and the bucket's stream denies deleting single messages. So
// each note is sealed with its own key, and the keys are in a stream whose messages can be overwritten. Overwriting a key makes everything that was
// sealed with it unreadable, including copies elsewhere.
//
// Several processes write notes and erase keys at the same time. Four rules ensure that the key of a current note is never erased, so that a cache
// of keys does no harm. The server enforces the first; this file and notes.go follow the others:
//
//  1. A note is replaced or deleted only at its last version: the versions of a note form one chain.
//  2. A put at a version seals with that version's key, or with a key that was made after that version was seen. Keys are numbered by their
//     sequence in the stream, so they never decrease along the chain.
//  3. An erasing put first replaces the note with a new key K, and then erases the keys below K. All later versions have K or a greater key, by 2.
//     A concurrent put with a smaller key is based on an older version, by 2, and conflicts, by 1.
//  4. A deletion reads the note's version, then the greatest key L, then puts the marker at that version, then erases the keys up to L. Everything
//     sealed so far has at most L. A process that makes the note anew has seen the marker before it makes a key, by 2, so its key is greater than
//     L; a process that made a key before conflicts.
//
// A process that is killed in between leaves either a key that seals nothing, or older keys beside the note's own. The note can be read at every
// moment, and the next call that erases, or reads all notes of the kind, erases the leftovers.

const (
	// Keys is the stream of the keys of notes.
	Keys = "CORTEX_KEYS"

	keySubject = "cortex.v1.key." // followed by the note's key in its bucket

	// sealMark is the beginning of a sealed note; the sequence of its key in eight bytes and the value, sealed with AES-GCM, follow. Notes of older
	// versions are JSON, which never begins like this.
	sealMark = "\x00cortex-sealed\x00"

	secretSize = 32
	ringSize   = 1 << 15 // notes whose keys are cached
)

// secret is a key of notes. The zero secret stands for a note that is not sealed.
type secret struct {
	seq uint64 // in the stream of keys
	key []byte
}

// keyring caches the keys of notes. A cached key may be outdated, which the rules above make harmless: the server refuses a put that is based on
// it. But a server that lost power may have lost keys and reuse their sequences, so a reconnect clears the cache.
type keyring struct {
	mu    sync.Mutex
	epoch uint64
	notes map[string]cachedKey
}

type cachedKey struct {
	revision uint64 // of the note that is sealed with secret, or of the marker of a note that is not there
	secret   secret // zero: there is no note
}

// absent reports whether it is of a place that has no note.
func (c *cachedKey) absent() bool { return c.secret.seq == 0 }

// find returns the cached key of the note at a place.
func (k *keyring) find(at string, epoch uint64) (cachedKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch != epoch {
		return cachedKey{}, false
	}
	r, ok := k.notes[at]
	return r, ok
}

func (k *keyring) keep(at string, epoch uint64, r cachedKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch > epoch || k.epoch == epoch && k.notes[at].revision > r.revision {
		return
	}
	if k.epoch < epoch || k.notes == nil || len(k.notes) >= ringSize {
		k.epoch, k.notes = epoch, map[string]cachedKey{}
	}
	k.notes[at] = r
}

func (k *keyring) drop(at string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.notes, at)
}

// openKeys opens the stream of keys, with as many replicas as the log.
func (s *Store) openKeys(ctx context.Context) error {
	stream, err := s.ensure(ctx, Keys, "Cortex: what notes are sealed with", keySubject, s.stream.CachedInfo().Config.Replicas)
	if err != nil {
		return err
	}
	if stream.CachedInfo().Config.DenyDelete {
		return fmt.Errorf("%w: its configuration would not let keys be erased: deny_delete is true", transport.ErrIncompatible)
	}
	s.seals = true
	return nil
}

// epoch returns a number that changes with each reconnect.
func (s *Store) epoch() uint64 { return s.nc.Stats().Reconnects }

// newSecret makes and stores a key for the note at a place.
func (s *Store) newSecret(ctx context.Context, at string) (secret, error) {
	key := make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: keySubject + at, Data: key}, jetstream.WithExpectStream(Keys))
	if err != nil {
		return secret{}, fmt.Errorf("key: %w", err)
	}
	return secret{ack.Sequence, key}, nil
}

// secretAt returns the key with a sequence; the zero secret, without an error, when it was erased.
func (s *Store) secretAt(ctx context.Context, at string, seq uint64) (secret, error) {
	m, err := s.getFromLeader(ctx, Keys, msgGet{Seq: seq})
	if err != nil || m.seq != seq || m.subject != keySubject+at {
		return secret{}, err
	}
	return secret{seq, m.data}, nil
}

// secrets returns all keys of the notes on a shelf, by place, the oldest first.
func (s *Store) secrets(ctx context.Context, shelf string) (map[string][]secret, error) {
	all := map[string][]secret{}
	err := s.readAll(ctx, Keys, keySubject+shelf+"*", func(m *stored) {
		at := strings.TrimPrefix(m.subject, keySubject)
		all[at] = append(all[at], secret{m.seq, m.data})
	})
	return all, err
}

// eraseSecrets overwrites the keys of the note at a place that are below a sequence.
func (s *Store) eraseSecrets(ctx context.Context, at string, below uint64) error {
	for from := uint64(1); ; {
		m, err := s.getFromLeader(ctx, Keys, msgGet{Seq: from, Next: keySubject + at})
		if err != nil || m.seq == 0 || m.seq >= below {
			return err
		}
		if err := s.eraseMessage(ctx, Keys, m.seq); err != nil {
			return err
		}
		from = m.seq + 1
	}
}

// sealedWith returns the sequence of the key of a stored value; 0 when the value is not sealed.
func sealedWith(value []byte) uint64 {
	rest, ok := bytes.CutPrefix(value, []byte(sealMark))
	if !ok || len(rest) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(rest)
}

// seal returns the stored form of the value of the note at a place. It can be opened only for that place.
func (k secret) seal(at string, value []byte) ([]byte, error) {
	gcm, err := k.gcm()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(sealMark)+8+len(value)+gcm.Overhead())
	b = binary.BigEndian.AppendUint64(append(b, sealMark...), k.seq)
	return gcm.Seal(b, nil, value, append(b[:len(b):len(b)], at...)), nil
}

// open returns the value that was given to seal.
func (k secret) open(at string, sealed []byte) ([]byte, error) {
	gcm, err := k.gcm()
	if err != nil {
		return nil, err
	}
	head := len(sealMark) + 8
	return gcm.Open(nil, nil, sealed[head:], append(sealed[:head:head], at...))
}

func (k secret) gcm() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
