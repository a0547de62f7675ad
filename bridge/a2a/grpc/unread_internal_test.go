package grpc

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "google.golang.org/grpc"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
)

// unread is a stream whose client does not read.
type unread struct {
	sdk.ServerStream
	ctx context.Context //nolint:containedctx // as that of the stream
}

func (s unread) SendMsg(any) error {
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}

// TestUnread checks that a stream ends whose client does not read it.
func TestUnread(t *testing.T) {
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ctx, ok := kit.NewPlaces(1, 1).Enter(limit, "user:ada", "")
	if !ok {
		t.Fatal("there is no place")
	}
	kit.Arrived(ctx)
	kit.Leave(ctx)
	s := &of{ServerStream: unread{ctx: ctx}, ctx: context.WithoutCancel(ctx), admission: &admission{writes: time.Millisecond}}
	if err := s.SendMsg(nil); !errors.Is(err, errUnread) {
		t.Errorf("SendMsg() = %v, want %v", err, errUnread)
	}
}
