package torture

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// The topologies.
const (
	Single   = "single"   // one process with everything except agents and clients
	Replicas = "replicas" // one NATS server, three replicas
	Cluster  = "cluster"  // three NATS servers that store everything three times, three replicas
)

// Config configures a run.
type Config struct {
	Program       string // cortex itself
	Folder        string // for everything that is written; created if missing
	Topology      string
	Kills         int
	Seed          uint64
	Agents        int // different ones; at least 2
	Clients       int // processes
	Conversations int
	Long          int           // conversations that are long from the beginning
	LongEntries   int           // their length
	Limit         time.Duration // of the killing; 0: two seconds per kill, and a minute
	// Progress, if set, is called from time to time from one goroutine.
	Progress func(doing string, kills int)
	Logger   *slog.Logger
}

// Bounds of waits.
const (
	startTime = time.Minute      // until everything runs
	calmTime  = 30 * time.Second // until what was accepted before the last kill of a round is answered
	quietTime = time.Minute      // until everything is answered in the end
	readTime  = 2 * time.Minute  // until all logs are read
	endGrace  = 20 * time.Second // for processes that were asked to end
)

// run is a run in progress.
type run struct {
	cfg     Config
	plan    *Plan
	troupe  *troupe
	watcher *watcher
	killer  *killer
	ready   []string // addresses of the replicas' health endpoints
	rand    *rand.Rand
}

// Run makes a run and judges it. When it returns, the processes have ended, even if ctx has ended first, which is an error. The report says what is
// wrong; an error says why there is no report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg.Limit = cmp.Or(cfg.Limit, time.Minute+time.Duration(cfg.Kills)*2*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Progress == nil {
		cfg.Progress = func(string, int) {}
	}
	if err := os.MkdirAll(cfg.Folder, 0o700); err != nil {
		return nil, err
	}
	if left, err := os.ReadDir(cfg.Folder); err != nil {
		return nil, err
	} else if len(left) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty: name another one", cfg.Folder)
	}
	r := &run{
		cfg: cfg, troupe: newTroupe(cfg.Program, cfg.Folder), rand: rand.New(rand.NewPCG(cfg.Seed, 0)),
		plan: &Plan{Agents: cfg.Agents, Clients: cfg.Clients, Conversations: cfg.Conversations, Long: cfg.Long, Seed: cfg.Seed},
	}
	stopped := false
	defer func() {
		if !stopped {
			r.troupe.stop(0)
		}
	}()
	began := time.Now()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if err := r.torture(ctx); err != nil {
		return nil, err
	}
	cfg.Progress("reading the logs", r.killer.total())
	report, err := r.judge(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Progress("ending", r.killer.total())
	stopped = true
	report.Forced = r.troupe.stop(endGrace)
	for _, p := range r.troupe.all("") {
		report.ended(p.name, p.byItself())
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}

// torture kills processes, and then waits until all work has ended.
func (r *run) torture(ctx context.Context) error {
	r.killer = newKiller(r)
	limit, cancel := context.WithTimeout(ctx, r.cfg.Limit)
	defer cancel()
	if err := r.killer.work(limit); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	r.cfg.Progress("waiting for quiet", r.killer.total())
	if err := os.WriteFile(filepath.Join(r.cfg.Folder, drainFile), nil, 0o600); err != nil {
		return err
	}
	end := time.After(quietTime)
	for _, p := range r.troupe.all(kindClient) {
		select {
		case <-p.stopped:
		case <-end:
			return nil // what is not answered by now is lost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
