package jetstore

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// keyHeader carries, on the first entry of a conversation, the key that seals its snapshots. After the log is erased, no copy of a snapshot can be
// read: neither in the server's files, nor one that is written by a process that does not know of the erasure. Logs of older versions have no key;
// their snapshots are not sealed.
const keyHeader = "Cortex-Key"

// newKey returns a value for keyHeader.
func newKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return base64.StdEncoding.EncodeToString(key[:])
}

// openBucket returns a bucket, and makes it with cfg if it is missing. It gets as many replicas as the log.
func (s *Store) openBucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	replicas := s.stream.CachedInfo().Config.Replicas
	kv, err := s.js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		cfg.History, cfg.Storage, cfg.Replicas = 1, jetstream.FileStorage, replicas
		kv, err = s.js.CreateKeyValue(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	stream, err := s.js.Stream(ctx, "KV_"+cfg.Bucket)
	if err != nil {
		return nil, err
	}
	got := stream.CachedInfo().Config
	if err := checkLeader(got); err != nil {
		return nil, err
	}
	if got.Replicas != replicas { // it was made when the log had another number
		got.Replicas = replicas
		if _, err := s.js.UpdateStream(ctx, got); err != nil {
			return nil, replicasError(replicas, err)
		}
	}
	return kv, nil
}

// keyOf returns the key of a conversation's snapshot.
func keyOf(tenant, contextID string) string {
	return transport.Escape(tenant) + "." + transport.Escape(contextID)
}

// Snapshot implements [storage.Snapshots]. With several replicas it may return an older one for a moment, which only makes the reader load a longer
// tail.
func (s *Store) Snapshot(ctx context.Context, tenant, contextID string) (conversation.Version, []byte, error) {
	kv, err := s.snaps.Get(ctx, keyOf(tenant, contextID))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	seal, _, err := s.sealOf(ctx, tenant, contextID)
	if errors.Is(err, errNotFound) {
		return 0, nil, nil // the conversation no longer exists
	}
	if err != nil {
		return 0, nil, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	b := kv.Value()
	if len(b) < 8 {
		return 0, nil, nil // not written by PutSnapshot; the log has everything
	}
	version, data := b[:8], b[8:]
	if ok, err := s.logHasVersion(ctx, tenant, contextID, kv); err != nil || !ok {
		return 0, nil, err
	}
	if seal != nil {
		if data, err = seal.Open(nil, nil, data, version); err != nil {
			return 0, nil, nil // it belongs to an erased conversation with the same id
		}
	}
	return conversation.Version(binary.BigEndian.Uint64(version)), data, nil
}

// PutSnapshot implements [storage.Snapshots]: the value is the version in eight bytes, then data, sealed. It drops a snapshot of a log that was
// erased meanwhile.
func (s *Store) PutSnapshot(ctx context.Context, tenant, contextID string, v conversation.Version, data []byte) error {
	seal, first, err := s.sealOf(ctx, tenant, contextID)
	if errors.Is(err, errNotFound) || v < first {
		return nil
	}
	if err == nil {
		b := binary.BigEndian.AppendUint64(make([]byte, 0, 64+len(data)), uint64(v))
		if seal == nil {
			b = append(b, data...)
		} else {
			b = seal.Seal(b, nil, data, b)
		}
		_, err = s.snaps.Put(ctx, keyOf(tenant, contextID), b)
	}
	if err != nil {
		return fmt.Errorf("put snapshot of %q: %w", contextID, err)
	}
	return nil
}

// sealOf returns the cipher of a conversation's snapshots, nil when they are not sealed, and the version of its first entry; or errNotFound when
// the conversation has no log.
func (s *Store) sealOf(ctx context.Context, tenant, contextID string) (seal cipher.AEAD, first conversation.Version, err error) {
	m, err := s.get(ctx, subjectOf(tenant, contextID), 1)
	if err != nil || m.key == "" {
		return nil, conversation.Version(m.seq), err
	}
	key, err := base64.StdEncoding.DecodeString(m.key)
	if err != nil {
		return nil, 0, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, 0, err
	}
	seal, err = cipher.NewGCMWithRandomNonce(block)
	return seal, conversation.Version(m.seq), err
}

// logHasVersion reports whether the log has the last entry that a snapshot covers. After a power cut the log may end before that entry, and the server
// gives its sequence to another one: logHasVersion removes the snapshot before that can happen.
func (s *Store) logHasVersion(ctx context.Context, tenant, contextID string, snap jetstream.KeyValueEntry) (bool, error) {
	subject, version := subjectOf(tenant, contextID), binary.BigEndian.Uint64(snap.Value())
	switch m, err := s.get(ctx, subject, version); {
	case err == nil && m.seq == version:
		return true, nil
	case err != nil && !errors.Is(err, errNotFound):
		return false, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	last, err := s.lastOf(ctx, subject) // the replica that answered may be behind
	if err == nil && last < version {
		err = s.snaps.Delete(ctx, snap.Key(), jetstream.LastRevision(snap.Revision()))
	}
	if err != nil {
		return false, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	return false, nil
}
