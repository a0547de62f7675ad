package garbage

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sort"
	"sync"
	"testing"
)

// TestPercent checks that garbage is bounded, and that the percentage is never below Go's default.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{{0, 400}, {10 << 20, 400}, {64 << 20, 400}, {128 << 20, 200}, {256 << 20, 100}, {8 << 30, 100}} {
		got := percent(c.inUse)
		if got != c.want {
			t.Errorf("percent(%d) = %d, want %d", c.inUse, got, c.want)
		}
		if room := uint64(got) * c.inUse / 100; room > max(room, c.inUse) {
			t.Errorf("with %d bytes in use, %d bytes of garbage gather", c.inUse, room)
		}
	}
}

// TestLimitFollows checks that the limit grows when nearly all time goes into collections, and shrinks again afterwards.
func TestLimitFollows(t *testing.T) {
	l := limit{bytes: leastLimit}
	changes := func(ticks int, inUse uint64, share float64) (n int) {
		for range ticks {
			if l.follow(inUse, share) {
				n++
			}
		}
		return n
	}
	if n := changes(1000, leastLimit/2, busy/2); n != 0 || l.bytes != leastLimit {
		t.Errorf("%d changes to %d bytes while there is time for work, want none", n, l.bytes)
	}
	if n := changes(busyFor-1, leastLimit/2, 2*busy) + changes(1, leastLimit/2, 0); n != 0 {
		t.Errorf("%d changes after a busy moment, want none", n)
	}
	if n := changes(3*busyFor, leastLimit/2, 2*busy); n != 3 || l.bytes < 3*leastLimit/2 {
		t.Errorf("%d changes to %d bytes, want 3 to nearly twice as much", n, l.bytes)
	}
	was := l.bytes
	for range busyFor { // collections that take longer than a tick
		changes(1, leastLimit/2, 2*busy)
		changes(3, leastLimit/2, -1)
	}
	if l.bytes <= was {
		t.Errorf("%d bytes after long collections, want more than %d", l.bytes, was)
	}
	most := uint64(sort.Search(int(l.bytes), func(inUse int) bool { return least(uint64(inUse)) >= l.bytes }))
	if n := changes(10*busyFor, most, -1); n != 0 {
		t.Errorf("%d changes while nothing is collected, want none", n)
	}
	if n := changes(10*idleFor, most, 0); n != 0 {
		t.Errorf("%d changes while all of it is in use, want none", n)
	}
	was = l.bytes
	if n := changes(1, uint64(was), 0); n != 1 || l.bytes != was+room(uint64(was)) {
		t.Errorf("%d changes to %d bytes when more is in use at once, want %d", n, l.bytes, was+room(uint64(was)))
	}
	if changes(10*idleFor, uint64(was), 0); l.bytes < least(uint64(was)) {
		t.Errorf("%d bytes while %d are in use, want %d at least", l.bytes, was, least(uint64(was)))
	}
	if changes(10*idleFor, leastLimit/4, 0); l.bytes != leastLimit {
		t.Errorf("%d bytes after nothing is in use any more, want %d", l.bytes, leastLimit)
	}
}

// TestRoom checks that little in use has plenty of room, and much has what keeps collections apart rather than a multiple.
func TestRoom(t *testing.T) {
	for _, c := range []struct{ inUse, want int64 }{{0, 0}, {256 << 20, 384 << 20}, {512 << 20, fullRoom}, {1 << 30, fullRoom}, {4 << 30, 2 << 30}} {
		if got := room(uint64(c.inUse)); got != c.want {
			t.Errorf("room(%d) = %d, want %d", c.inUse, got, c.want)
		}
	}
}

// TestMemoryIsBounded checks that Gather sets a memory limit and restores the previous one.
func TestMemoryIsBounded(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Gather(ctx); close(ended) }()
	for debug.SetMemoryLimit(-1) == before {
		runtime.Gosched()
	}
	if got := debug.SetMemoryLimit(-1); got != leastLimit {
		t.Errorf("the limit is %d bytes, want %d", got, leastLimit)
	}
	cancel()
	<-ended
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit is %d bytes afterwards, want %d as before", got, before)
	}
}

// TestPoolsAreNoUse has a buffer come into a pool as it is let go of, as the NATS server does with what it has read: it counts as in use, until settled.
func TestPoolsAreNoUse(t *testing.T) {
	const size = 64 << 20
	var pool sync.Pool
	put := make(chan struct{})
	settle() // after other tests
	before := live()
	func() {
		block := &struct{ buf []byte }{make([]byte, size)}
		runtime.AddCleanup(block, func(buf []byte) {
			pool.Put(&buf)
			close(put)
		}, block.buf)
	}()
	runtime.GC()
	<-put
	if got := live(); got < before+size/2 {
		t.Errorf("%d bytes are in use, %d before the buffer", got, before)
	}
	settle()
	if got := live(); got >= before+size/2 {
		t.Errorf("%d bytes are in use afterwards, %d before", got, before)
	}
	runtime.KeepAlive(&pool)
}

// TestLimitIsRaisedForWhatIsInUse checks that what is in use is found out before the limit is raised for it.
func TestLimitIsRaisedForWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	held := make([]byte, leastLimit)
	runtime.GC()
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	before := debug.SetMemoryLimit(-1)
	go func() { Gather(ctx); close(ended) }()
	for l := debug.SetMemoryLimit(-1); l == before || l < 2*leastLimit; l = debug.SetMemoryLimit(-1) {
		runtime.Gosched()
	}
	runtime.ReadMemStats(&is)
	cancel()
	<-ended
	if n := is.NumForcedGC - was.NumForcedGC; n < 3 {
		t.Errorf("the limit is raised after %d collections", n)
	}
	runtime.KeepAlive(held)
}

// live returns how many bytes the last collection found in use.
func live() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
