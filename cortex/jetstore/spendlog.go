package jetstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// spentFor is how long the sum of a day is stored after its last change.
const spentFor = 4 * 24 * time.Hour

// spendTries bounds the attempts of a Spend that conflicts with others. Of concurrent attempts one always succeeds.
const spendTries = 1000

// Spent implements [storage.SpendLog]. With several replicas it may return a slightly older sum.
func (s *Store) Spent(ctx context.Context, tenant, day string) (llm.Usage, error) {
	u, _, err := s.spentOn(ctx, keyOf(tenant, day))
	if err != nil {
		return llm.Usage{}, fmt.Errorf("spent on %s: %w", day, away(ctx, err))
	}
	return u, nil
}

// spentOn returns a value and its revision; 0 when there is none.
func (s *Store) spentOn(ctx context.Context, key string) (u llm.Usage, revision uint64, err error) {
	kv, err := s.spent.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return llm.Usage{}, 0, nil
	}
	if err != nil {
		return llm.Usage{}, 0, err
	}
	if err := json.Unmarshal(kv.Value(), &u); err != nil {
		return llm.Usage{}, 0, fmt.Errorf("the value cannot be read: %w", err)
	}
	return u, kv.Revision(), nil
}

// Spend implements [storage.SpendLog]: it reads the sum, unless this Store has written it last, and writes the new one, and repeats that when the server
// refuses the write because the sum has changed meanwhile.
func (s *Store) Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	sum, err := s.spend(ctx, keyOf(tenant, day), u)
	if err != nil {
		return llm.Usage{}, fmt.Errorf("spend on %s: %w", day, away(ctx, err))
	}
	return sum, nil
}

func (s *Store) spend(ctx context.Context, key string, u llm.Usage) (llm.Usage, error) {
	epoch := s.epoch()
	sum, revision := s.written.take(key, epoch)
	for range spendTries {
		remembered := revision != 0
		if !remembered {
			var err error
			if sum, revision, err = s.spentOn(ctx, key); err != nil {
				return llm.Usage{}, err
			}
		}
		sum = sum.Add(u)
		b, err := json.Marshal(sum)
		if err != nil {
			return llm.Usage{}, fmt.Errorf("%w: %w", transport.ErrInvalid, err)
		}
		if revision == 0 {
			revision, err = s.spent.Create(ctx, key, b)
		} else {
			revision, err = s.spent.Update(ctx, key, b, revision)
		}
		switch {
		case err == nil:
			s.written.put(key, epoch, sum, revision)
			return sum, nil
		case !errors.Is(err, jetstream.ErrKeyExists) && !errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			return sum, err
		}
		if revision = 0; remembered {
			continue
		}
		if rest.For(ctx, rand.N(10*time.Millisecond)) != nil { // let the others go first
			return llm.Usage{}, ctx.Err()
		}
	}
	return llm.Usage{}, fmt.Errorf("%w: others wrote %d times in between", storage.ErrConflict, spendTries)
}

// writtenSum is the sum that a Store has written last, while no Spend uses it. It is safe for concurrent use.
type writtenSum struct {
	mu       sync.Mutex
	key      string
	epoch    uint64 // see Store.epoch: a server that comes back may have lost what it had, and give a revision to another sum
	sum      llm.Usage
	revision uint64 // 0: unknown
}

// take returns the sum of key and its revision, and forgets them. The revision is 0 when they are unknown.
func (w *writtenSum) take(key string, epoch uint64) (llm.Usage, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.key != key || w.epoch != epoch {
		return llm.Usage{}, 0
	}
	defer func() { w.revision = 0 }()
	return w.sum, w.revision
}

func (w *writtenSum) put(key string, epoch uint64, sum llm.Usage, revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.epoch, w.sum, w.revision = key, epoch, sum, revision
}
