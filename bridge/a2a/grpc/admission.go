package grpc

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/lapse"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
)

// admission lets calls in. Who makes a call is looked at before anything of its message is read: what strangers send takes no memory.
type admission struct {
	cortex   *a2a.Server
	identify a2a.Identify
	guard    *httpserver.Guard
	places   *kit.Places   // of calls whose messages are not there yet
	writes   time.Duration // that a client has for a piece of a stream
}

// call is a call whose sender is known.
type call struct {
	user  string
	token string // "" where nobody has one
}

type callKey struct{}

// arrive implements [tap.ServerInHandle]. It runs while the connection can do nothing else.
func (a *admission) arrive(ctx context.Context, info *tap.Info) (context.Context, error) {
	user, token, err := caller(ctx, info.Header, a.identify)
	if err != nil {
		return nil, err
	}
	from, host := user, ""
	if a.identify == nil { // all are the same
		if p, ok := peer.FromContext(ctx); ok {
			from = p.Addr.String()
			host = kit.Host(from)
		}
	}
	ctx, ok := a.places.Enter(ctx, from, host)
	if !ok {
		return nil, status.Error(codes.ResourceExhausted, "too many calls arrive at the same time: make it again when some have arrived")
	}
	ctx, end := lapse.While(ctx, func() error {
		if a.identify == nil {
			return nil
		}
		_, err := a.identify(token)
		return err
	})
	context.AfterFunc(ctx, end)
	return context.WithValue(ctx, callKey{}, &call{user, token}), nil
}

// admit returns the context of a call whose message has arrived, and its span, which the handler is to leave.
func (a *admission) admit(ctx context.Context, message any) (context.Context, *span, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return ctx, nil, status.Error(codes.Unauthenticated, "nobody is known to make this call")
	}
	kit.Arrived(ctx)
	kit.Leave(ctx)
	if err := check(message); err != nil {
		return ctx, nil, err
	}
	to := ""
	if named, ok := message.(interface{ GetTenant() string }); ok { // the SDK forgets it in some calls
		to = named.GetTenant()
	}
	over := func() {}
	if from, ok := peer.FromContext(ctx); ok {
		over = a.guard.Begin(from.Addr, c.user)
	}
	meta, _ := metadata.FromIncomingContext(ctx)
	if host := meta.Get(":authority"); len(host) > 0 {
		ctx = a.cortex.WithAuthority(ctx, host[0])
	}
	ctx = a.cortex.WithToken(a.cortex.With(ctx, c.user, to), c.token)
	of := newSpan(ctx, func() {
		a.cortex.Done(ctx)
		over()
	})
	if m, ok := message.(proto.Message); ok && !a.cortex.Hold(ctx, protoweight.OfMessage(m)) {
		of.leave()
		return ctx, nil, status.Error(codes.ResourceExhausted, a2a.TooMuch)
	}
	return ctx, of, nil
}
