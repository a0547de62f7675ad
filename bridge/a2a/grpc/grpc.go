// Package grpc serves a server of package bridge/a2a with A2A's gRPC binding. It is apart from that, so that only programs that want gRPC have it. An agent
// other than Cortex itself is named by the tenant of a call, as the cards say.
package grpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	a2asdk "github.com/a2aproject/a2a-go/v2/a2a"
	handler "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	sdk "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

const (
	helloTime  = 5 * time.Second  // for a connection to become one of HTTP/2
	idleTime   = 5 * time.Minute  // of a connection without calls
	maxStreams = 100              // of a connection
	maxHeader  = 16 << 10         // bytes of the metadata of a call
	writeTime  = 30 * time.Second // of a piece of a stream, as by HTTP

	// Calls whose messages are still arriving, each of up to a2a.MaxBody bytes. A connection alone never has too many of them.
	maxArriving = 256
	ownArriving = 128 // of a user, or of a connection where nobody says who they are
)

// Options configures Serve.
type Options struct {
	// Connections bounds the open connections. Required.
	Connections int
	// Identify is as for [a2a.Server.Handler]. With nil, only programs on this machine are served.
	Identify a2a.Identify
	TLS      *tls.Config  // nil: without TLS
	Logger   *slog.Logger // nil discards
}

var errUnread = errors.New("the client does not read what it has asked for")

// Serve serves cortex on l, which it closes, until ctx ends; then it returns nil, after at most two seconds for running calls.
func Serve(ctx context.Context, l net.Listener, cortex *a2a.Server, o *Options) error {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	guard := httpserver.NewGuard(l, opts.Connections, opts.Logger)
	d := &admission{cortex: cortex, identify: opts.Identify, guard: guard, places: kit.NewPlaces(maxArriving, ownArriving), writes: writeTime}
	secure := insecure.NewCredentials()
	if opts.TLS != nil {
		secure = credentials.NewTLS(opts.TLS)
	}
	s := sdk.NewServer(
		sdk.Creds(secure), sdk.ForceServerCodecV2(newCodec()), sdk.MaxRecvMsgSize(a2a.MaxBody), sdk.MaxConcurrentStreams(maxStreams), sdk.MaxHeaderListSize(maxHeader), sdk.ConnectionTimeout(helloTime),
		sdk.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, Time: time.Minute}),
		sdk.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		sdk.InTapHandle(d.arrive), sdk.StatsHandler(kit.Conns{}),
		sdk.UnaryInterceptor(func(ctx context.Context, req any, _ *sdk.UnaryServerInfo, next sdk.UnaryHandler) (_ any, err error) {
			defer caught(opts.Logger, &err)
			ctx, span, err := d.admit(ctx, req)
			if err != nil {
				return nil, err
			}
			defer span.leave()
			meta, _ := metadata.FromIncomingContext(ctx)
			ctx, call := a2asrv.NewCallContext(ctx, a2asrv.NewServiceParams(meta)) // which the SDK forgets for GetExtendedAgentCard
			to, err := next(ctx, req)
			if on := call.Extensions().ActivatedURIs(); len(on) > 0 && err == nil {
				err = sdk.SetTrailer(ctx, metadata.MD{strings.ToLower(a2asdk.SvcParamExtensions): on})
			}
			if err != nil {
				return nil, exhausted(err)
			}
			return span.answer(to), nil
		}),
		sdk.StreamInterceptor(func(srv any, stream sdk.ServerStream, _ *sdk.StreamServerInfo, next sdk.StreamHandler) (err error) {
			defer caught(opts.Logger, &err)
			own := &of{ServerStream: stream, ctx: stream.Context(), admission: d}
			defer own.leave()
			return exhausted(next(srv, own))
		}),
	)
	handler.NewHandler(cortex.Requests()).RegisterWith(s)
	return kit.ServeGRPC(ctx, s, guard)
}

// check returns an error for what the SDK leaves out of a call without a word: a history of less than nothing.
func check(call any) error {
	n := int32(0)
	switch c := call.(type) {
	case interface{ GetHistoryLength() int32 }:
		n = c.GetHistoryLength()
	case *a2apb.SendMessageRequest:
		n = c.GetConfiguration().GetHistoryLength()
	}
	if n >= 0 {
		return nil
	}
	s, err := status.New(codes.InvalidArgument, fmt.Sprintf("historyLength is %d: it is at least 0", n)).WithDetails(&errdetails.ErrorInfo{
		Reason: a2asdk.ErrorReason(a2asdk.ErrInvalidParams), Domain: a2asdk.ProtocolDomain,
	})
	if err != nil {
		return err
	}
	return s.Err()
}

// exhausted gives an error of the SDK the code that it has no name for, if it is that one.
func exhausted(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, of := range s.Details() {
		info, ok := of.(*errdetails.ErrorInfo)
		if ok && info.GetDomain() == a2asdk.ProtocolDomain && info.GetMetadata()[a2a.StatusKey] == a2a.Exhausted {
			p := s.Proto()
			p.Code = int32(codes.ResourceExhausted)
			return status.FromProto(p).Err()
		}
	}
	return err
}

// of is a stream of a caller, whose agent is known when the call has arrived.
type of struct {
	sdk.ServerStream
	ctx       context.Context //nolint:containedctx // as that of the stream
	admission *admission
	span      *span // nil before the call has arrived
}

func (s *of) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *of) RecvMsg(call any) error {
	err := s.ServerStream.RecvMsg(call)
	if err == nil {
		s.leave()
		s.ctx, s.span, err = s.admission.admit(s.ctx, call)
	}
	return err
}

// SendMsg implements grpc.ServerStream. It ends the call of a client that does not read: what happens meanwhile would wait for it.
func (s *of) SendMsg(event any) error {
	late := time.AfterFunc(s.admission.writes, func() { kit.End(s.ctx, errUnread) })
	defer late.Stop()
	return s.ServerStream.SendMsg(s.span.answer(event))
}

func (s *of) leave() {
	if s.span != nil {
		s.span.leave()
	}
}

// caught makes an error of a panic.
func caught(log *slog.Logger, err *error) {
	if cause := recover(); cause != nil {
		log.Error("an A2A call has panicked", "panic", cause)
		*err = status.Error(codes.Internal, "internal error")
	}
}

// caller returns who asks, and the token that says so, or the error that they may not.
func caller(ctx context.Context, meta metadata.MD, identify a2a.Identify) (user, token string, err error) {
	if identify == nil {
		from, _ := peer.FromContext(ctx)
		if from == nil || !kit.Local(from.Addr.String(), meta) {
			return "", "", status.Error(codes.PermissionDenied, "this Cortex has no keys, and lets in only programs on its own machine: see `cortex auth --help`")
		}
		return "", "", nil
	}
	err = errors.New("a bearer token is needed: `cortex auth token` makes one")
	if all := meta.Get("authorization"); len(all) > 0 {
		if kind, said, _ := strings.Cut(all[0], " "); strings.EqualFold(kind, "Bearer") {
			token = strings.TrimSpace(said)
			user, err = identify(token)
		}
	}
	if err == nil && user == "" {
		err = errors.New("the token is nobody's")
	}
	if err != nil {
		return "", "", status.Error(codes.Unauthenticated, err.Error())
	}
	return user, token, nil
}
