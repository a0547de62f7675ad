package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	progressEach = 200 * time.Millisecond // at least between two notifications
	silentFor    = 10 * time.Second       // some hosts cut a call that says nothing
	maxProgress  = 200                    // characters
)

// news tells the host how a call goes on.
type news struct {
	k     *talk
	token any
	stop  context.CancelFunc
	done  sync.WaitGroup

	fresh chan struct{} // holds one when there is something pending

	mu      sync.Mutex
	pending string // not told yet
	words   bool   // pending is the end of a text that is being written
}

// tell begins to tell the host of progress, if it wants that, until end is called.
func (k *talk) tell(ctx context.Context) *news {
	n := &news{k: k, token: k.req.Params.GetProgressToken(), stop: func() {}, fresh: make(chan struct{}, 1)}
	if n.token == nil {
		return n
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.done.Go(func() { n.run(ctx) })
	return n
}

func (n *news) end() {
	n.stop()
	n.done.Wait()
}

func (n *news) run(ctx context.Context) {
	began := time.Now()
	silent := time.NewTimer(silentFor)
	defer silent.Stop()
	for count := 1.0; ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-n.fresh:
		case <-silent.C:
		}
		n.mu.Lock()
		text := n.pending
		n.pending, n.words = "", false
		n.mu.Unlock()
		if text == "" {
			text = fmt.Sprintf("at work for %v", time.Since(began).Round(time.Second))
		}
		err := n.k.req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: n.token, Progress: count, Message: prompt.Clean(text, maxProgress)})
		if err != nil || rest.For(ctx, progressEach) != nil {
			return // the host is gone, or is told the result
		}
		silent.Reset(silentFor)
	}
}

// add takes note of a live event. Of several at once the last is told, and a text that is written is told in pieces.
func (n *news) add(e *transport.Event) {
	text, words := "", false
	switch p := e.Payload.(type) {
	case *transport.Delta:
		text, words = p.Text, true
	case *a2a.Task:
		if text = client.TaskAgent(p); len(p.History) > 0 && p.History[0] != nil {
			text += ": " + transport.Text(p.History[0].Parts)
		}
	case *a2a.TaskStatusUpdateEvent:
		if text = e.From; e.From == transport.Cortex {
			text = transport.MetaString(p, transport.MetaAgentID)
		}
		said := kit.StateName(p.Status.State)
		if p.Status.Message != nil && e.From != transport.Cortex {
			said = transport.Text(p.Status.Message.Parts)
		}
		text += ": " + said
	case *a2a.TaskArtifactUpdateEvent:
		text = e.From + " sends its result"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if words && n.words {
		text = n.pending + text
		if len(text) > 8*maxProgress {
			return
		}
	}
	n.pending, n.words = text, words
	select {
	case n.fresh <- struct{}{}:
	default:
	}
}
