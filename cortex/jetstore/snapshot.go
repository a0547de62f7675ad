package jetstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/transport"
)

// openBucket returns a bucket, made with cfg if it is not there.
func (s *Store) openBucket(ctx context.Context, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	kv, err := s.js.KeyValue(ctx, cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		cfg.History, cfg.Storage, cfg.Replicas = 1, jetstream.FileStorage, s.stream.CachedInfo().Config.Replicas
		kv, err = s.js.CreateKeyValue(ctx, cfg)
	}
	return kv, err
}

// keyOf returns the key of a conversation's snapshot.
func keyOf(tenant, contextID string) string {
	return transport.Escape(tenant) + "." + transport.Escape(contextID)
}

// Snapshot implements [cortex.Snapshots]. On several replicas it may be an older one for a moment, which costs the time to
// read a longer tail.
func (s *Store) Snapshot(ctx context.Context, tenant, contextID string) (cortex.Version, []byte, error) {
	kv, err := s.snaps.Get(ctx, keyOf(tenant, contextID))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, fmt.Errorf("snapshot of %q: %w", contextID, err)
	}
	b := kv.Value()
	if len(b) < 8 {
		return 0, nil, nil // nothing that PutSnapshot wrote; the log has everything
	}
	return cortex.Version(binary.BigEndian.Uint64(b)), b[8:], nil
}

// PutSnapshot implements [cortex.Snapshots]: the value is the version in eight bytes, then data.
func (s *Store) PutSnapshot(ctx context.Context, tenant, contextID string, v cortex.Version, data []byte) error {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(data)), uint64(v))
	if _, err := s.snaps.Put(ctx, keyOf(tenant, contextID), append(b, data...)); err != nil {
		return fmt.Errorf("put snapshot of %q: %w", contextID, err)
	}
	return nil
}
