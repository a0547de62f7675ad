package nats

import (
	"context"
	"sync"
)

// maxIdle is how many goroutines wait for work. Reusing one saves a new goroutine from growing its stack, which takes as long as all the rest of a
// small event's decoding.
const maxIdle = 64

// job is a delivery or, in an ordered inbox, the conversation whose queue was just started.
type job struct {
	d            *delivery
	conversation string
}

// workers run jobs, each at once and in its own goroutine.
type workers struct {
	run  func(job)
	end  <-chan struct{}
	jobs chan job // for idle goroutines
	all  sync.WaitGroup

	mu   sync.Mutex
	idle int // idle goroutines, minus the jobs in the channel
}

func startWorkers(ctx context.Context, run func(job)) *workers {
	return &workers{run: run, end: ctx.Done(), jobs: make(chan job, maxIdle)}
}

// do runs j, except that j may be dropped when the context of startWorkers has ended.
func (w *workers) do(j job) {
	w.mu.Lock()
	idle := w.idle > 0
	if idle {
		w.idle--
	}
	w.mu.Unlock()
	if idle {
		w.jobs <- j // does not block: its capacity is maxIdle
		return
	}
	w.all.Go(func() { w.work(j) })
}

func (w *workers) work(j job) {
	for {
		w.run(j)
		w.mu.Lock()
		stay := w.idle < maxIdle
		if stay {
			w.idle++
		}
		w.mu.Unlock()
		if !stay {
			return
		}
		select {
		case j = <-w.jobs:
		case <-w.end:
			return
		}
	}
}

// wait returns when no job runs any more. The context must have ended, and nothing may call do meanwhile.
func (w *workers) wait() { w.all.Wait() }
