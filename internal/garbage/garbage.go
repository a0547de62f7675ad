// Package garbage sets how much of it may gather before Go collects it. It is for processes that run turns.
package garbage

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	room     = 256 << 20 // bytes of garbage that may gather, where less is in use
	most     = 400       // the same, in per cent of what is in use
	byItself = 100       // per cent that Go lets gather
	every    = time.Second

	leastLimit = 768 << 20 // bytes of memory beyond which Go collects all the time, rather than take more
	busy       = 0.25      // share of the processors' time for collecting that says the limit is too low
	busyFor    = 10        // such ticks in a row until the limit is raised by a quarter
	idleFor    = 60        // ticks of which half the limit would do, until it is lowered again
)

// Gather has garbage collected less often, until ctx ends: Go does it whenever there is as much as is in use, and a turn makes much
// and keeps little. With more than 256 MB in use that is as Go does it by itself.
//
// It also bounds the memory of the process. The NATS server keeps each block of a file that was read for ten seconds, but lets Go collect
// it before, so that whoever reads a large store takes as much memory as Go lets gather. The bound follows what is really in use, slowly:
// collecting all the time is worse than more memory. Nothing is set where the environment has GOGC or GOMEMLIMIT.
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
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}}
	var collecting, all float64
	for {
		metrics.Read(read)
		inUse := read[0].Value.Uint64()
		if p := percent(inUse); p != last {
			last = p
			debug.SetGCPercent(p)
		}
		c, a := read[1].Value.Float64(), read[2].Value.Float64()
		share := -1.0 // Go counts the time when it has collected
		if a > all {
			share = (c - collecting) / (a - all)
		}
		if bound.follow(inUse, share) {
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

// percent returns how much garbage may gather, in per cent of what is in use.
func percent(inUse uint64) int { return int(min(max(100*room/max(inUse, 1), byItself), most)) }

// limit is the bound of the memory, which follows what is in use.
type limit struct {
	bytes        int64
	tight, loose int // ticks in a row
}

// follow takes note of what is in use, and of the share of time that went into collecting since it was called last; less than 0 where that
// is not known, such as in the middle of a long collection. It reports whether the limit has changed.
func (l *limit) follow(inUse uint64, share float64) bool {
	l.loose++
	if share >= busy {
		l.tight++
	} else if share >= 0 {
		l.tight = 0
	}
	if l.bytes == leastLimit || int64(inUse) > l.bytes/2 {
		l.loose = 0
	}
	switch {
	case l.tight == busyFor:
		l.bytes += l.bytes / 4
	case l.loose == idleFor:
		l.bytes = max(leastLimit, l.bytes/5*4)
	default:
		return false
	}
	l.tight, l.loose = 0, 0
	return true
}
