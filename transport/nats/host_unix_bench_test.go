//go:build unix

package nats

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
)

// BenchmarkHost measures 10,000 idle agents with the server and the host in one process: memory, and the share of a core.
func BenchmarkHost(b *testing.B) {
	bus := benchBus(b)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		h, err := agents.NewHost(bus, "bridge", &agents.Options{Heartbeat: 5 * time.Second}) // so that three heartbeats are measured
		if err != nil {
			b.Fatal(err)
		}
		handler := agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) { return nil, nil })
		for i := range 10_000 {
			card := &a2a.AgentCard{Name: fmt.Sprint("agent", i), Description: "An agent of many", Skills: []a2a.AgentSkill{{ID: "do", Name: "Do", Description: "Does it", Tags: []string{"x"}}}}
			if err := h.Add(b.Context(), card, handler); err != nil {
				b.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- h.Serve(ctx) }()
		for n := uint64(0); n < 10_001; {
			s, err := bus.js.Stream(ctx, agentsStream)
			if err != nil {
				b.Fatal(err)
			}
			n = s.CachedInfo().State.Msgs
		}
		b.ReportMetric(time.Since(began).Seconds(), "s/announce")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.Sys-before.Sys)/(1<<20), "MiB-sys")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB-heap")
		used := func() time.Duration {
			var r syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
			return time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
		from := used()
		<-time.After(15 * time.Second)
		b.ReportMetric(float64(used()-from)/float64(15*time.Second)*100, "%core")
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
