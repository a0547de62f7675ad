package nats

import (
	"context"
	"sync"
)

// maxIdle is how many goroutines without work wait for some. Most of the time this saves a new one from growing its stack,
// which takes as long as all the rest of a small event's decoding.
const maxIdle = 64

// job is a delivery, or, in an ordered inbox, the conversation whose queue has just begun.
type job struct {
	d            *delivery
	conversation string
}

// workers run jobs, each at once and in a goroutine of its own.
type workers struct {
	run  func(job)
	end  <-chan struct{}
	jobs chan job // for those who are idle
	all  sync.WaitGroup

	mu   sync.Mutex
	idle int // those who wait, less the jobs that wait for them
}

func startWorkers(ctx context.Context, run func(job)) *workers {
	return &workers{run: run, end: ctx.Done(), jobs: make(chan job, maxIdle)}
}

// do has j run; when the context of startWorkers has ended, maybe not.
func (w *workers) do(j job) {
	w.mu.Lock()
	idle := w.idle > 0
	if idle {
		w.idle--
	}
	w.mu.Unlock()
	if idle {
		w.jobs <- j // has room for as many as are idle
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

// wait returns when nothing runs any more; nobody calls do meanwhile, and the context has ended.
func (w *workers) wait() { w.all.Wait() }
