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
)

// Gather has garbage collected less often, until ctx ends: Go does it whenever there is as much as is in use, and a turn makes much
// and keeps little. With more than 256 MB in use nothing changes, nor where the environment has GOGC or GOMEMLIMIT.
func Gather(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	defer debug.SetGCPercent(byItself)
	tick := time.NewTicker(every)
	defer tick.Stop()
	inUse, last := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, byItself
	for {
		metrics.Read(inUse)
		if p := percent(inUse[0].Value.Uint64()); p != last {
			last = p
			debug.SetGCPercent(p)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// percent returns how much garbage may gather, in per cent of what is in use.
func percent(inUse uint64) int { return int(min(max(100*room/max(inUse, 1), byItself), most)) }
