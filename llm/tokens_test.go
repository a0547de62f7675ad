package llm

import (
	"sync"
	"testing"
)

func TestGauge(t *testing.T) {
	var g gauge
	tokens := func(want int) {
		t.Helper()
		if got := g.tokens(1000); got != want {
			t.Errorf("tokens(1000) = %d, want %d", got, want)
		}
	}
	tokens(334) // three bytes, rounded up
	if got := g.bytes(10); got != 30 {
		t.Errorf("bytes(10) = %d, want 30", got)
	}
	g.measured(0, 5)
	g.measured(5, 0)
	tokens(334) // without counts nothing changes
	g.measured(4000, 1000)
	tokens(250) // the first measurement counts in full
	g.measured(6000, 1000)
	tokens(223) // then a quarter of each: 4 + (6-4)/4
	for range 100 {
		g.measured(1_000_000, 1)
		g.measured(6001, 1000)
	}
	tokens(223) // no text has so few tokens
	for range 100 {
		g.measured(1, 1_000_000)
	}
	tokens(1000) // at least one
}

func TestGaugeConcurrent(t *testing.T) {
	var g gauge
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				g.measured(4000, 1000)
				g.tokens(10)
			}
		})
	}
	wg.Wait()
	if got := g.tokens(1000); got != 250 {
		t.Errorf("tokens(1000) = %d, want 250", got)
	}
}

func TestPromptOf(t *testing.T) {
	for _, c := range []struct {
		chunk Chunk
		want  int
	}{
		{Chunk{}, 0},
		{Chunk{Usage: Usage{Input: 100, Cached: 90, Output: 7}}, 100},
		{Chunk{Usage: Usage{Input: 100, Cached: 900}}, 1000}, // Input excludes the cached ones
		{Chunk{Usage: Usage{Input: 200, Cached: 900}, Prompt: 500}, 500},
	} {
		if got := promptOf(&c.chunk); got != c.want {
			t.Errorf("promptOf(%+v) = %d, want %d", c.chunk, got, c.want)
		}
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct{ window, answer, want int }{
		{100_000, 0, 100_000 - 10_000 - 4096},
		{10_000, 0, 10_000 - 1000 - 2500}, // at most a quarter
		{100_000, 20_000, 70_000},
		{1001, 1, 1001 - 101 - 1},
		{1000, 5000, 650}, // at most a quarter here too
		{1, 0, 0},
	} {
		o := DeciderOptions{Window: c.window}
		if got := o.room(c.answer); got != c.want {
			t.Errorf("room(%d) of a window of %d = %d, want %d", c.answer, c.window, got, c.want)
		}
	}
}
