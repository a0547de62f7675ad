package agenthub

import (
	"cmp"
	"context"
	"net"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
)

// Bounds of the server. A stream lasts as long as its program: one that has ended is never opened again.
const (
	maxCalls  = 64       // at the same time, beside streams whose messages have arrived: what they take together is bounded by this, too
	maxBody   = 4 << 20  // bytes of a message, as with the real hub
	maxHeavy  = 8 << 20  // bytes that it takes when it is decoded, as far as that can be estimated
	maxHeader = 16 << 10 // bytes of the metadata of a call
	maxOnConn = 256      // streams and calls of a connection
	helloTime = 10 * time.Second
	pingTime  = time.Minute // after which a silent connection is looked after
	pongTime  = 20 * time.Second
)

// serve serves the hub on l until ctx ends.
func (h *hub) serve(ctx context.Context, l net.Listener) error {
	h.stopping = ctx
	guard := httpserver.NewGuard(l, openfiles.HTTP(h.at.Listeners), h.at.Logger)
	h.exchange.cut = func(conn string) {
		h.at.Logger.Warn("connection closed: too much waits for the program, which reads too slowly", "from", conn)
		guard.Cut(conn)
	}
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(kit.Telling{CodecV2: protoweight.NewCodec(maxHeavy, protoweight.ErrHeavy)}), grpc.MaxRecvMsgSize(maxBody), grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxOnConn), grpc.ConnectionTimeout(helloTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingTime, Timeout: pongTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true), grpc.StatsHandler(kit.Conns{}),
		grpc.InTapHandle(admit(kit.NewPlaces(maxCalls, maxCalls))),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
			defer h.caught(&err)
			kit.Arrived(ctx)
			if from, ok := peer.FromContext(ctx); ok {
				defer guard.Begin(from.Addr, kit.Host(from.Addr.String()))()
			}
			answer, err := next(ctx, req)
			if m, ok := answer.(proto.Message); ok && err == nil {
				return h.exchange.answer(ctx, m), nil // it is written as fast as the client reads, when the call is over
			}
			return answer, err
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
			defer h.caught(&err)
			if from, ok := peer.FromContext(stream.Context()); ok {
				defer guard.Hold(from.Addr, kit.Host(from.Addr.String()))()
			}
			return next(srv, stream)
		}),
	)
	hubpb.RegisterAgentHubServer(s, h)
	return cmp.Or(kit.ServeGRPC(ctx, s, guard), ctx.Err())
}

// admit returns what lets calls in, as far as there are places.
func admit(places *kit.Places) tap.ServerInHandle {
	return func(ctx context.Context, _ *tap.Info) (context.Context, error) {
		conn := connOf(ctx)
		ctx, ok := places.Enter(ctx, conn, kit.Host(conn))
		if !ok {
			return nil, status.Error(codes.ResourceExhausted, "too many calls at the same time: make it again")
		}
		return ctx, nil
	}
}

// caught makes an error of a panic.
func (h *hub) caught(err *error) {
	if cause := recover(); cause != nil {
		h.at.Logger.Error("a call has panicked", "panic", cause, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error")
	}
}
