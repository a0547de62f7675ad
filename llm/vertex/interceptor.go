package vertex

import (
	"context"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/llm"
)

// intercept lets the call of a context edit its request and observe its answers.
func intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	k := callOf(ctx)
	if k == nil {
		return streamer(ctx, desc, cc, method, opts...)
	}
	s, err := streamer(ctx, desc, cc, method, append(opts, grpc.MaxCallRecvMsgSize(maxFrame))...)
	if err != nil {
		return nil, err
	}
	return &stream{s, k}, nil
}

type stream struct {
	grpc.ClientStream
	call *call
}

func (s *stream) SendMsg(m any) error {
	if request, ok := m.(*pb.GenerateContentRequest); ok {
		s.call.edit(request)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *stream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if answer, ok := m.(*pb.GenerateContentResponse); ok {
		if s.call.size += proto.Size(answer); s.call.size > maxAnswer {
			s.call.failure = s.call.fail(llm.ErrUnavailable, unreadable+errTooLarge.Error(), nil)
			return s.call.failure
		}
		s.call.observe(answer)
	}
	return nil
}

// trailers marks calls whose status comes from the server. gRPC uses the same codes for broken connections.
type trailers struct{}

func (trailers) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InTrailer); ok {
		if k := callOf(ctx); k != nil {
			k.trailer.Store(true)
		}
	}
}

func (trailers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (trailers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (trailers) HandleConn(context.Context, stats.ConnStats)                       {}
