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

// A server's files hold what a note was, long after it was replaced or deleted, and the bucket's stream denies deleting single
// messages. So each note is sealed with a key of its own, and the keys are in a stream where messages can be overwritten. Whoever
// overwrites a key makes unreadable what was sealed with it, wherever a copy may be.
//
// Several processes write notes and erase keys at the same time. That the key of a note which stands is never erased, so that a
// cache of keys does no harm, follows from four rules; the server holds the first, and this file and notes.go the others:
//
//  1. A note is only replaced, or deleted, at the version that is its last: everything that a note was forms one chain.
//  2. What is put at a version is sealed with that version's key, or with one that was made after that version was seen. A key is
//     named by its sequence in the stream, so along the chain keys never become smaller.
//  3. Who has replaced a note with a new key K erases the keys below K, and only then. All that stand from then on have K or a
//     greater one, by 2. Who was about to put with a smaller key bases that on an older version, by 2, and conflicts, by 1.
//  4. Who deletes a note looks at its version, then at the greatest key L, then puts the marker of the deletion at that version,
//     then erases the keys up to L. What was sealed so far has at most L. Who makes the note anew has seen the marker before
//     making a key, by 2, so that has more than L; who had made one before conflicts.
//
// Who is killed in between leaves either a key that nothing was sealed with, or older keys beside the one that the note has. The
// note can be read at every moment, and the next one who erases, or reads all notes of the kind, erases what was left.

const (
	// Keys is the stream of the keys of notes.
	Keys = "CORTEX_KEYS"

	keySubject = "cortex.v1.key." // then what the key of the note in its bucket is

	// sealMark is what a sealed note begins with; then come the sequence of its key in eight bytes and what AES-GCM makes of the value.
	// Notes of older builds are JSON, which never begins so.
	sealMark = "\x00cortex-sealed\x00"

	secretSize = 32
	ringSize   = 1 << 15 // notes whose keys are remembered
)

// secret is a key that notes are sealed with. The zero secret is that of notes which are not sealed.
type secret struct {
	seq uint64 // in the stream of keys
	key []byte
}

// keyring remembers the keys of notes as they were seen last. What it says may be old, which the rules above make harmless: a put that is
// based on it is refused by the server. But a server that lost power may have lost keys with it, and give their sequences to others;
// so a ring is empty again behind each reconnect.
type keyring struct {
	mu    sync.Mutex
	epoch uint64
	notes map[string]ringed
}

type ringed struct {
	revision uint64 // of the note that is sealed with it
	secret   secret
}

// find returns what is remembered of the note at a place.
func (k *keyring) find(at string, epoch uint64) (ringed, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch != epoch {
		return ringed{}, false
	}
	r, ok := k.notes[at]
	return r, ok
}

func (k *keyring) keep(at string, epoch uint64, r ringed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.epoch > epoch || k.epoch == epoch && k.notes[at].revision > r.revision {
		return
	}
	if k.epoch < epoch || k.notes == nil || len(k.notes) >= ringSize {
		k.epoch, k.notes = epoch, map[string]ringed{}
	}
	k.notes[at] = r
}

func (k *keyring) drop(at string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.notes, at)
}

// keysConfig is what the stream of keys must be. It has to let messages be deleted.
func keysConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: Keys, Description: "Cortex: what notes are sealed with", Subjects: []string{keySubject + ">"},
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Replicas: replicas, Discard: jetstream.DiscardNew,
		AllowDirect: true,
	}
}

// openKeys opens the stream of keys, which is kept by as many servers as the log.
func (s *Store) openKeys(ctx context.Context) error {
	stream, err := s.ensure(ctx, keysConfig, s.stream.CachedInfo().Config.Replicas)
	if err != nil {
		return err
	}
	if stream.CachedInfo().Config.DenyDelete {
		return fmt.Errorf("%w: its configuration would not let keys be erased: deny_delete is true", transport.ErrIncompatible)
	}
	s.seals = true
	return nil
}

// epoch changes with each reconnect.
func (s *Store) epoch() uint64 { return s.nc.Stats().Reconnects }

// newSecret makes a key for the note at a place, and stores it.
func (s *Store) newSecret(ctx context.Context, at string) (secret, error) {
	key := make([]byte, secretSize)
	_, _ = rand.Read(key) // never fails
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: keySubject + at, Data: key}, jetstream.WithExpectStream(Keys))
	if err != nil {
		return secret{}, fmt.Errorf("key: %w", err)
	}
	return secret{ack.Sequence, key}, nil
}

// secretAt asks for the key with a sequence. There is none, without an error, when it was erased.
func (s *Store) secretAt(ctx context.Context, at string, seq uint64) (secret, error) {
	m, err := s.look(ctx, Keys, msgGet{Seq: seq})
	if err != nil || m.seq != seq || m.subject != keySubject+at {
		return secret{}, err
	}
	return secret{seq, m.data}, nil
}

// secrets returns all keys of the notes on a shelf, by the notes' places, the oldest first.
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
		m, err := s.look(ctx, Keys, msgGet{Seq: from, Next: keySubject + at})
		if err != nil || m.seq == 0 || m.seq >= below {
			return err
		}
		if err := s.eraseMessage(ctx, Keys, m.seq); err != nil {
			return err
		}
		from = m.seq + 1
	}
}

// sealedWith returns the sequence of the key that a stored value is sealed with, 0 when it is plain.
func sealedWith(value []byte) uint64 {
	rest, ok := bytes.CutPrefix(value, []byte(sealMark))
	if !ok || len(rest) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(rest)
}

// seal returns what is stored for the value of the note at a place. It cannot be read at another place.
func (k secret) seal(at string, value []byte) ([]byte, error) {
	gcm, err := k.gcm()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(sealMark)+8+len(value)+gcm.Overhead())
	b = binary.BigEndian.AppendUint64(append(b, sealMark...), k.seq)
	return gcm.Seal(b, nil, value, append(b[:len(b):len(b)], at...)), nil
}

// open returns the value that seal was given.
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
