package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// Bounds of what is counted of the work of agents.
const (
	workAge   = 24 * time.Hour
	workScan  = 200                    // conversations
	workTime  = 150 * time.Millisecond // for reading them
	workKeep  = 4 * time.Second        // it is counted again after it
	maxRecent = 20                     // tasks on the page of an agent
)

// works remembers what was counted, for all who look at it. It is safe for concurrent use.
type works struct {
	mu  sync.Mutex
	at  time.Time
	of  map[string]*view.Work
	all bool
}

// work returns what each agent was given in the last day, and whether all conversations were counted.
func (c *Console) work(ctx context.Context) (map[string]*view.Work, bool, error) {
	w := &c.works
	w.mu.Lock()
	defer w.mu.Unlock()
	now := c.cfg.Now()
	if w.of != nil && now.Sub(w.at) < workKeep {
		return w.of, w.all, nil
	}
	ctx, stop := context.WithTimeout(ctx, workTime)
	defer stop()
	of, all, err := view.WorkOf(ctx, c.reader(), now.Add(-workAge), workScan)
	if err != nil {
		return nil, false, err
	}
	w.of, w.all, w.at = of, all, now
	return of, all, nil
}

// shareText formats the share of tasks that an agent has done.
func shareText(w *view.Work) string {
	share, ok := w.Share()
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %%", share)
}
