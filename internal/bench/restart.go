package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// RestartConfig configures Restart. Binary, Conversations and Agents are required.
type RestartConfig struct {
	Binary        string // of cortex
	Conversations int
	Agents        int
	Progress      Progress
}

const (
	appendsAtOnce = 64
	restartGoal   = 5 // seconds, at least
	restartAim    = 2
)

// Restart measures how long a `cortex serve` takes to become ready on a store with many conversations and agents, after it was stopped and after it
// was killed, and its memory then. Each conversation has had one turn. The time to build the store is also measured.
func Restart(ctx context.Context, cfg RestartConfig) (figures []Figure, err error) {
	err = withFolder(func(dir string) error {
		figures, err = restart(ctx, cfg, dir)
		return err
	})
	return figures, err
}

func restart(ctx context.Context, cfg RestartConfig, dir string) ([]Figure, error) {
	what := plural(cfg.Conversations, "conversation") + ", " + plural(cfg.Agents, "agent")
	begin := time.Now()
	if err := build(ctx, cfg, dir); err != nil {
		return nil, err
	}
	building := time.Since(begin)
	figures := []Figure{{Case: "build", What: "building " + what, Value: building.Seconds(), Unit: "s"}}
	idle, err := idleMemory(ctx, dir)
	if err != nil {
		return nil, err
	}
	figures = append(figures, Figure{
		Case: "idle_bytes", What: "server memory of an idle conversation",
		Value: idle / float64(max(1, cfg.Conversations)) / 1024, Unit: "KB", Least: 4, Less: true,
	})
	for i, after := range []string{"stopped", "killed"} {
		cfg.Progress.tell("restart", i, 2)
		p, err := startServe(ctx, cfg.Binary, dir)
		if err != nil {
			return nil, err
		}
		rss, known := resident(p.cmd.Process.Pid)
		figures = append(figures, Figure{
			Case: "restart_" + after, What: "start until ready, after it was " + after,
			Value: p.ready.Seconds(), Unit: "s", Least: restartGoal, Aim: restartAim, Less: true,
		})
		if after == "stopped" {
			p.kill()
			if known {
				figures = append(figures, Figure{Case: "rss", What: "memory of the process when it was ready (RSS)", Value: rss / (1 << 20), Unit: "MB"})
			}
		} else if err := p.stop(); err != nil {
			return nil, err
		}
		if p.agents != cfg.Agents {
			return nil, fmt.Errorf("after the restart %d of %s were there", p.agents, plural(cfg.Agents, "agent"))
		}
	}
	return figures, nil
}

// build fills a data folder.
func build(ctx context.Context, cfg RestartConfig, dir string) error {
	n, err := startNode(ctx, nodeConfig{dir: dir, workers: 1})
	if err != nil {
		return err
	}
	err = n.conversations(cfg.Conversations, cfg.Progress)
	if err == nil {
		err = n.announceFleet(cfg.Agents, cfg.Progress)
	}
	if err == nil {
		cfg.Progress.tell("the agents are written down", 0, 1)
		err = n.noted()
	}
	return errors.Join(err, n.Close())
}

// conversations stores count conversations with one turn each, which are copies of a real one.
func (n *node) conversations(count int, progress Progress) error {
	u, err := n.newUser("model", 0)
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.turn(n.ctx); err != nil {
		return err
	}
	var model []*conversation.Entry
	for e, err := range n.store.Load(n.ctx, "", "model", 0) {
		if err != nil {
			return err
		}
		model = append(model, e)
	}
	what := plural(count, "conversation")
	var done atomic.Int64
	g, ctx := errgroup.WithContext(n.ctx)
	g.SetLimit(appendsAtOnce)
	for i := range count {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			progress.tell(what, int(done.Add(1)), count)
			return n.storeCopy(ctx, fmt.Sprintf("conversation-%d", i+1), model)
		})
	}
	return g.Wait()
}

// storeCopy stores the entries of one conversation as those of another.
func (n *node) storeCopy(ctx context.Context, contextID string, model []*conversation.Entry) error {
	conv := conversation.NewConversation("", contextID)
	for _, e := range model {
		entry, cause := *e, *e.Cause
		entry.Cause, cause.ContextID = &cause, contextID
		if cause.TaskID != "" {
			running := conv.Running()
			if len(running) != 1 {
				return fmt.Errorf("store %s: %d tasks run, want the one that there was", contextID, len(running))
			}
			cause.TaskID = running[0].ID // ids of tasks are derived from the conversation
		}
		switch p := cause.Payload.(type) {
		case *a2a.Message:
			m := *p
			m.ContextID = contextID
			cause.Payload = &m
		case *a2a.Task:
			t := *p
			t.ContextID, t.ID = contextID, cause.TaskID
			cause.Payload = &t
		}
		version, err := n.store.Append(ctx, "", contextID, conv.Version, &entry)
		if err != nil {
			return fmt.Errorf("store %s: %w", contextID, err)
		}
		entry.Version = version
		if err := conv.Apply(&entry); err != nil {
			return fmt.Errorf("store %s: %w", contextID, err)
		}
	}
	return nil
}

// idleMemory returns how much of this process's memory a server uses that has just opened a data folder, in bytes.
func idleMemory(ctx context.Context, dir string) (float64, error) {
	before := heap()
	s, err := nats.StartServer(ctx, &nats.ServerOptions{Dir: filepath.Join(dir, "nats")})
	if err != nil {
		return 0, err
	}
	defer s.Shutdown()
	return max(0, heap()-before), nil
}

// heap returns the memory in use, in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC() // frees objects with finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
