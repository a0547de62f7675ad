package agents_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/transport"
)

// deaf is a transport whose server has gone: what is published when it is, waits for it.
type deaf struct {
	transport.Transport
	gone chan struct{}
}

func (d *deaf) Publish(ctx context.Context, to transport.Topic, e *transport.Event) error {
	select {
	case <-d.gone:
		<-ctx.Done()
		return ctx.Err()
	default:
		return d.Transport.Publish(ctx, to, e)
	}
}

// An agent that leaves while Cortex is away says in words, once, that nobody could be told.
func TestLeaveWhileCortexIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tr := &deaf{b.bus.Dial(), make(chan struct{})}
		var log bytes.Buffer
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- agents.Serve(ctx, tr, &a2a.AgentCard{Name: "slow", Description: "Is slow"}, agents.Handler(shout),
				&agents.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		}()
		synctest.Wait()
		close(tr.gone)
		leave()
		<-ended
		const want = `msg="cortex could not be told that this agent leaves, and notices it by itself within a minute or two" agent=slow err="no answer within 2s"`
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
			t.Errorf("the log is\n%s\nwant %s", got, want)
		}
	})
}
