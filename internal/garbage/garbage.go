// Package garbage tunes Go's garbage collector for processes that run turns.
package garbage

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	gathers  = 256 << 20 // bytes of garbage before a collection, when less is in use
	most     = 400       // the maximum of GOGC, in per cent of what is in use
	byItself = 100       // Go's default of GOGC
	every    = time.Second

	fullRoom   = 768 << 20 // bytes that the limit leaves above what is in use, when that is between 512 MB and 1.5 GB
	leastLimit = 768 << 20 // the lowest memory limit, in bytes; near its limit Go collects continuously rather than use more
	busy       = 0.25      // share of CPU time for collections that shows that the limit is too low
	busyFor    = 10        // ticks in a row before the limit is raised by a quarter
	idleFor    = 60        // ticks in which a lower limit would do, before it is lowered by a fifth
)

// Gather makes Go collect garbage less often, until ctx ends. By default Go collects when there is as much garbage as memory in use, and a turn
// makes much garbage but retains little. With more than 256 MB in use the default applies.
//
// Gather also sets a memory limit. The NATS server caches each block of a file for ten seconds after a read, but lets Go collect it earlier, so
// reading a large store takes as much memory as Go allows. The limit slowly follows the memory in use: continuous collection is worse than more
// memory. Gather does nothing when the environment sets GOGC or GOMEMLIMIT.
func Gather(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	before := debug.SetMemoryLimit(leastLimit)
	defer debug.SetMemoryLimit(before)
	defer debug.SetGCPercent(byItself)
	tick := time.NewTicker(every)
	defer tick.Stop()
	bound, last := limit{bytes: leastLimit}, byItself
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/memory/classes/heap/stacks:bytes"},
	}
	var collecting, all float64
	for {
		metrics.Read(read)
		inUse := read[0].Value.Uint64()
		if p := percent(inUse); p != last {
			last = p
			debug.SetGCPercent(p)
		}
		c, a := read[1].Value.Float64(), read[2].Value.Float64()
		share := -1.0 // unknown: Go updates the times only after a collection
		if a > all {
			share = (c - collecting) / (a - all)
		}
		if bound.exceeds(inUse + read[3].Value.Uint64()) {
			settle()
			metrics.Read(read)
			inUse, c, a = read[0].Value.Uint64(), read[1].Value.Float64(), read[2].Value.Float64()
		}
		if bound.follow(inUse+read[3].Value.Uint64(), share) {
			debug.SetMemoryLimit(bound.bytes)
		}
		collecting, all = c, a
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// settle collects until what nobody uses any more no longer counts as in use. A block that the NATS server has read is let go of by one collection, and is in a
// pool until the third: while a large store is read, most of what counts as in use is such blocks, and a limit that follows them lets more of them come.
func settle() {
	for range 3 {
		runtime.GC()
	}
}

// percent returns the GOGC value for this many bytes in use.
func percent(inUse uint64) int { return int(min(max(100*gathers/max(inUse, 1), byItself), most)) }

// limit is the memory limit, which follows the memory in use.
type limit struct {
	bytes        int64
	tight, loose int // ticks in a row
}

// room returns how much the limit leaves above the bytes in use: not a multiple of much, since blocks that were read count as in use until they are collected, and
// the limit would grow with them.
func room(inUse uint64) int64 {
	return max(min(3*int64(inUse)/2, fullRoom), int64(inUse)/2) //nolint:gosec // memory
}

// least returns the lowest limit with which this much may be in use: with less, collections follow each other.
func least(inUse uint64) int64 { return int64(inUse) + room(inUse)/3*2 } //nolint:gosec // memory

// exceeds reports whether the limit would have to be raised at once for the bytes in use.
func (l *limit) exceeds(inUse uint64) bool { return least(inUse) > l.bytes }

// follow updates the limit from the bytes in use and the share of CPU time spent on collections since the last call; a negative share is unknown,
// as during a long collection. It reports whether the limit has changed. What is in use can double at once: that is no cache, and thousands of
// conversations that begin need it now.
func (l *limit) follow(inUse uint64, share float64) bool {
	if l.exceeds(inUse) {
		*l = limit{bytes: int64(inUse) + room(inUse)} //nolint:gosec // memory; with room, since what exceeds it again is settled again
		return true
	}
	l.loose++
	if share >= busy {
		l.tight++
	} else if share >= 0 {
		l.tight = 0
	}
	if l.bytes == leastLimit || least(inUse) >= l.bytes {
		l.loose = 0
	}
	switch {
	case l.tight == busyFor:
		l.bytes += l.bytes / 4
	case l.loose == idleFor:
		l.bytes = max(leastLimit, l.bytes/5*4, least(inUse))
	default:
		return false
	}
	l.tight, l.loose = 0, 0
	return true
}
