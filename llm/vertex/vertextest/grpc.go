package vertextest

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	pb "cloud.google.com/go/aiplatform/apiv1beta1/aiplatformpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cortex-orchestrator/cortex/llm/llmtest"
)

// ServeGRPC starts a gRPC server on this machine, which ends with the test. With secure it uses TLS, with a certificate of Roots for the name
// "example.com".
func ServeGRPC(t testing.TB, h llmtest.Handler, secure bool) *Server {
	t.Helper()
	s := &Server{handler: h}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = l.Addr().String()
	if secure {
		donor := s.certificate()
		t.Cleanup(donor.Close)
		l = tls.NewListener(l, &tls.Config{Certificates: donor.TLS.Certificates, NextProtos: []string{"h2"}})
	}
	server := grpc.NewServer()
	pb.RegisterPredictionServiceServer(server, &service{server: s})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(scissors{l}) // until it is stopped
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return s
}

type service struct {
	pb.UnimplementedPredictionServiceServer
	server *Server
}

func (s *service) StreamGenerateContent(r *pb.GenerateContentRequest, stream pb.PredictionService_StreamGenerateContentServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	c, err := s.server.call(r, stream.Context().Done(), strings.Join(md.Get("authorization"), ""))
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return say(stream.Context(), &grpcWire{stream, c.Key}, c, s.server.handler(c))
}

type grpcWire struct {
	stream pb.PredictionService_StreamGenerateContentServer
	key    string
}

func (w *grpcWire) begin() error                             { return w.stream.SendHeader(nil) }
func (w *grpcWire) send(m *pb.GenerateContentResponse) error { return w.stream.Send(m) }
func (w *grpcWire) end() error                               { return nil }
func (w *grpcWire) garbage(string) error                     { return nil } // impossible with gRPC

func (w *grpcWire) unknown(m *pb.GenerateContentResponse) error {
	extra := protowire.AppendString(protowire.AppendTag(nil, 4711, protowire.BytesType), "from the future")
	for _, part := range m.Candidates[0].Content.Parts {
		part.ProtoReflect().SetUnknown(extra)
	}
	m.ProtoReflect().SetUnknown(extra)
	return w.stream.Send(m)
}

func (w *grpcWire) fail(f *llmtest.Fault) error {
	s, err := status.New(codeOf(f), messageOf(f, w.key)).WithDetails(detailsOf(f)...)
	if err != nil {
		return err
	}
	return s.Err()
}

func (w *grpcWire) endless() error {
	if err := w.stream.Send(&pb.GenerateContentResponse{Candidates: []*pb.Candidate{
		{Content: &pb.Content{Parts: []*pb.Part{{Data: text(strings.Repeat("a", 64<<20))}}}},
	}}); err != nil {
		return err
	}
	<-w.stream.Context().Done()
	return nil
}

// mark makes the connection close after the message that contains it.
const mark = "cut-the-connection-behind-this-message"

func (w *grpcWire) cut(bool) error {
	if err := w.stream.Send(&pb.GenerateContentResponse{ResponseId: mark}); err != nil {
		return err
	}
	<-w.stream.Context().Done() // the client has noticed
	return nil
}

// scissors is a listener whose connections close after the mark. gRPC does not report when a message was written; this does.
type scissors struct{ net.Listener }

func (l scissors) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cuttable{c}, nil
}

type cuttable struct{ net.Conn }

func (c *cuttable) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && bytes.Contains(p, []byte(mark)) {
		_ = half.CloseWrite() // what was written arrives first; then the client closes the connection
	}
	return n, err
}
