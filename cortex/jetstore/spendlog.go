package jetstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	u, _, err := s.spentOn(ctx, tenant, day)
	if err != nil {
		return llm.Usage{}, fmt.Errorf("spent on %s: %w", day, away(ctx, err))
	}
	return u, nil
}

// spentOn returns the sum of a day and its revision; 0 when there is none that can be read. A value that cannot be read, as others or a damaged disk leave it,
// must not end all turns of the day: what this process knows of the day counts in its place, and the next Spend replaces it. What replaces a value that is
// damaged on the disk the server stores, but does not acknowledge.
func (s *Store) spentOn(ctx context.Context, tenant, day string) (u llm.Usage, revision uint64, err error) {
	kv, err := s.spent.Get(ctx, keyOf(tenant, day))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		n, err := s.unreadSum(ctx, keyOf(tenant, day))
		if err != nil {
			return llm.Usage{}, 0, err
		}
		if n == 0 {
			s.grown.forget(tenant, day)
			return llm.Usage{}, 0, nil
		}
		known := s.grown.with(tenant, day, llm.Usage{})
		if s.grown.isNew(day, math.MaxUint64) { // the server does not tell its revision
			s.log.Warn("what was spent on a day is damaged on the disk: what is known of it counts", "day", day, "tokens", known.Tokens(), "cost", known.Cost)
		}
		return known, 0, nil
	}
	if err != nil {
		return llm.Usage{}, 0, err
	}
	if err = json.Unmarshal(kv.Value(), &u); err != nil {
		u = llm.Usage{}
	}
	known := s.grown.with(tenant, day, u)
	if err != nil && s.grown.isNew(day, kv.Revision()) {
		s.log.Warn("what was spent on a day cannot be read: what is known of it counts", "day", day, "tokens", known.Tokens(), "cost", known.Cost,
			"value", string(kv.Value()[:min(len(kv.Value()), maxShown)]), "err", err)
	}
	return known, kv.Revision(), nil
}

// unreadSum returns how many messages of a key the server has when it cannot read the last one; otherwise 0.
func (s *Store) unreadSum(ctx context.Context, key string) (uint64, error) {
	in, err := s.js.Stream(ctx, "KV_"+SpendLog)
	if err != nil {
		return 0, err
	}
	return s.unreadIn(ctx, in, "$KV."+SpendLog+"."+key)
}

// maxShown bounds how much is logged of a value that cannot be read, in bytes.
const maxShown = 200

// SpendTrouble returns a line about the last day whose sum could not be read; "" when each could.
func (s *Store) SpendTrouble() string {
	s.grown.mu.Lock()
	defer s.grown.mu.Unlock()
	if s.grown.unread == 0 {
		return ""
	}
	return fmt.Sprintf("spend log: what was spent on %s could not be read, and what this process knew of that day counts instead: its log tells more", s.grown.unreadDay)
}

// Spend implements [storage.SpendLog]: it reads the sum, unless this Store has written it last, and writes the new one, and repeats that when the server
// refuses the write because the sum has changed meanwhile.
func (s *Store) Spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	sum, err := s.spend(ctx, tenant, day, u)
	if err != nil {
		return llm.Usage{}, fmt.Errorf("spend on %s: %w", day, away(ctx, err))
	}
	return sum, nil
}

func (s *Store) spend(ctx context.Context, tenant, day string, u llm.Usage) (llm.Usage, error) {
	key, epoch := keyOf(tenant, day), s.epoch()
	sum, revision := s.written.take(key, epoch)
	for range spendTries {
		remembered := revision != 0
		if !remembered {
			var err error
			if sum, revision, err = s.spentOn(ctx, tenant, day); err != nil {
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
			return s.grown.with(tenant, day, sum), nil
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

// grownSum is the most that a Store has seen of the last day, of which the sum only grows: where a value is less, since it cannot be read, or a process has
// replaced such a one that knew less, this counts. It is safe for concurrent use.
type grownSum struct {
	mu          sync.Mutex
	tenant, day string
	sum         llm.Usage

	unreadDay string // of the last value that could not be read
	unread    uint64 // its revision
}

// with returns u, or what was seen of the day if that is more.
func (g *grownSum) with(tenant, day string, u llm.Usage) llm.Usage {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case day < g.day:
		return u
	case day > g.day || tenant != g.tenant:
		g.tenant, g.day, g.sum = tenant, day, u
	case u.Tokens() >= g.sum.Tokens() && u.Cost >= g.sum.Cost:
		g.sum = u
	}
	return g.sum
}

// forget forgets the sum of a day, which was removed.
func (g *grownSum) forget(tenant, day string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if day == g.day && tenant == g.tenant {
		g.sum = llm.Usage{}
	}
}

// isNew reports whether the value of this revision, which cannot be read, has not been seen before.
func (g *grownSum) isNew(day string, revision uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if revision == g.unread {
		return false
	}
	g.unreadDay, g.unread = day, revision
	return true
}
