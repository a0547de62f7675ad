package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
)

const today, tomorrow = "2026-11-20", "2026-11-21"

var usage = llm.Usage{Input: 1000, Cached: 100, Output: 10, Cost: 0.25}

func wantSpent(t *testing.T, s storage.SpendLog, tenant, day string, want llm.Usage) {
	t.Helper()
	if got, err := s.Spent(t.Context(), tenant, day); err != nil || got != want {
		t.Errorf("Spent(%q, %q) = %+v, %v, want %+v", tenant, day, got, err, want)
	}
}

func spend(t *testing.T, s storage.SpendLog, tenant, day string, u, want llm.Usage) {
	t.Helper()
	if got, err := s.Spend(t.Context(), tenant, day, u); err != nil || got != want {
		t.Errorf("Spend(%q, %q, %+v) = %+v, %v, want %+v", tenant, day, u, got, err, want)
	}
}

func testSpendLog(t *testing.T, store storage.Store) {
	s := store.(storage.SpendLog)
	wantSpent(t, s, "", today, llm.Usage{})
	spend(t, s, "", today, usage, usage)
	spend(t, s, "", today, llm.Usage{Output: 5, Cost: 0.5}, llm.Usage{Input: 1000, Cached: 100, Output: 15, Cost: 0.75})
	wantSpent(t, s, "", today, llm.Usage{Input: 1000, Cached: 100, Output: 15, Cost: 0.75})
	wantSpent(t, s, "", tomorrow, llm.Usage{})
	spend(t, s, "", tomorrow, usage, usage)
	wantSpent(t, s, "", today, llm.Usage{Input: 1000, Cached: 100, Output: 15, Cost: 0.75})

	tenants := oddIDs()
	for i, tenant := range tenants {
		wantSpent(t, s, tenant, today, llm.Usage{})
		spend(t, s, tenant, today, llm.Usage{Input: i + 1}, llm.Usage{Input: i + 1})
	}
	for i, tenant := range tenants {
		wantSpent(t, s, tenant, today, llm.Usage{Input: i + 1})
	}
	if n := len(contexts(t, store, "")); n != 0 {
		t.Errorf("Contexts yields %d conversations, want 0: what was spent is none", n)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Spend(ctx, "", today, usage); !errors.Is(err, context.Canceled) {
		t.Errorf("Spend when ctx has ended = %v, want context.Canceled", err)
	}
	if _, err := s.Spent(ctx, "", today); !errors.Is(err, context.Canceled) {
		t.Errorf("Spent when ctx has ended = %v, want context.Canceled", err)
	}
}

// testCompetingSpenders spends concurrently, as conversations and replicas do: all of it counts.
func testCompetingSpenders(t *testing.T, store storage.Store) {
	s := store.(storage.SpendLog)
	const spenders, times = 16, 8
	var wg sync.WaitGroup
	for range spenders {
		wg.Go(func() {
			least := llm.Usage{}
			for range times {
				sum, err := s.Spend(t.Context(), "", today, usage)
				if err != nil {
					t.Errorf("Spend = %v", err)
					return
				}
				if sum.Tokens() < least.Tokens()+usage.Tokens() {
					t.Errorf("Spend returns a sum of %d tokens after one of %d", sum.Tokens(), least.Tokens())
				}
				least = sum
			}
		})
	}
	wg.Wait()
	const n = spenders * times
	wantSpent(t, s, "", today, llm.Usage{Input: n * usage.Input, Cached: n * usage.Cached, Output: n * usage.Output, Cost: n * usage.Cost})
}
