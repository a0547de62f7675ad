package a2a

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cortex-orchestrator/cortex/internal/protoweight"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// maxInterfaces bounds the interfaces of a card that are looked at.
const maxInterfaces = 16

// connection is a way to call a peer.
type connection struct {
	*a2aclient.Client
	streams bool
	at      string // the interfaces that it is made of
}

// connect returns a client for the first interface of a card that can be used, and the warnings about others.
func (a *Agent) connect(ctx context.Context, card *a2a.AgentCard) (*connection, error) {
	var usable []*a2a.AgentInterface
	var refused []error
	at := ""
	for _, i := range card.SupportedInterfaces[:min(len(card.SupportedInterfaces), maxInterfaces)] {
		is := *i
		u, err := a.address(&is)
		if err == nil {
			err = a.may(u)
		}
		if err != nil {
			refused = append(refused, err)
			continue
		}
		is.URL = u.String()
		is.ProtocolVersion = cmp.Or(is.ProtocolVersion, a2a.Version)
		usable = append(usable, &is)
		at += fmt.Sprintf("%s %s %s %s\n", is.URL, is.ProtocolBinding, is.ProtocolVersion, is.Tenant)
	}
	if len(usable) == 0 {
		return nil, cmp.Or(errors.Join(refused...), errors.New("its card names no interface"))
	}
	dial := func(of func(*grpc.ClientConn) a2aclient.Transport) a2aclient.TransportFactory {
		return a2aclient.TransportFactoryFn(func(_ context.Context, _ *a2a.AgentCard, i *a2a.AgentInterface) (a2aclient.Transport, error) {
			conn, err := a.dialGRPC(i.URL)
			if err != nil {
				return nil, err
			}
			return of(conn), nil
		})
	}
	client, err := a2aclient.NewFromEndpoints(ctx, usable, a2aclient.WithDefaultsDisabled(),
		a2aclient.WithJSONRPCTransport(a.http), a2aclient.WithRESTTransport(a.http), a2aclient.WithTransport(a2a.TransportProtocolGRPC, dial(grpcv1.NewGRPCTransport)),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: a.http}), a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: a.http}),
		a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolGRPC, dial(grpcv0.NewGRPCTransport)),
	)
	if err != nil {
		return nil, fmt.Errorf("its card: %w", err)
	}
	return &connection{Client: client, streams: card.Capabilities.Streaming, at: at}, nil
}

// address parses the address of an interface. That of gRPC may have no scheme; then it has that of the card.
func (a *Agent) address(i *a2a.AgentInterface) (*url.URL, error) {
	text := i.URL
	if i.ProtocolBinding == a2a.TransportProtocolGRPC {
		scheme, rest, found := strings.Cut(text, "://")
		switch {
		case !found:
			scheme, rest = a.home.Scheme, text
		case scheme == "grpc":
			scheme = "http"
		case scheme == "grpcs":
			scheme = "https"
		}
		text = scheme + "://" + rest
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fmt.Errorf("its card: the interface %.100q is no URL", i.URL)
	}
	return u, nil
}

// dialGRPC returns a connection to the host of a URL; http is without TLS.
func (a *Agent) dialGRPC(address string) (*grpc.ClientConn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	secure, port := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), cmp.Or(u.Port(), "443")
	if u.Scheme == "http" {
		secure, port = insecure.NewCredentials(), cmp.Or(u.Port(), "80")
	}
	o := []grpc.DialOption{
		grpc.WithTransportCredentials(secure), grpc.WithPerRPCCredentials(headersOf{a, publicnet.Origin(u), u.Scheme == "https"}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(protoweight.NewCodec(maxHeavy, errHeavy))), grpc.WithUserAgent("cortex/" + a.o.Version),
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream), grpc.WithDisableServiceConfig(),
	}
	if a.peer.Public {
		d := a.dialer()
		o = append(o, grpc.WithNoProxy(), grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) { return d.DialContext(ctx, "tcp", at) }))
	}
	return grpc.NewClient("dns:///"+net.JoinHostPort(u.Hostname(), port), o...)
}

// headersOf gives gRPC the credentials for an origin.
type headersOf struct {
	a      *Agent
	origin string
	tls    bool
}

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (h headersOf) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	m := map[string]string{}
	for name, values := range maps.All(map[string][]string(h.a.credentials().of(h.origin))) {
		m[strings.ToLower(name)] = values[0]
	}
	return m, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials].
func (h headersOf) RequireTransportSecurity() bool { return h.tls }

// maxMessage bounds a message of a peer by gRPC, in bytes: the usual bound of clients. Its memory is taken when its beginning has come, so a larger one would
// need room as by HTTP, and gRPC lets nobody wait for that.
const maxMessage = 4 << 20

// unary and stream keep what the SDK's conversion of errors loses: that the peer is away.
func unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if err := invoke(ctx, method, req, reply, cc, o...); err != nil {
		return rpcError(err)
	}
	return answers.Wait(ctx, max(sizeOf(reply)-freeAnswer, 0))
}

func stream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, d, cc, method, o...)
	if err != nil {
		return nil, rpcError(err)
	}
	return &rpcStream{ClientStream: s}, nil
}

// rpcStream bounds a stream, and reads it at the pace, as by HTTP.
type rpcStream struct {
	grpc.ClientStream
	n int // bytes so far
}

// RecvMsg implements [grpc.ClientStream].
func (s *rpcStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return rpcError(err)
	}
	heardOf(s.Context())()
	was := s.n
	if s.n += sizeOf(m); s.n > maxStream {
		return fmt.Errorf("%w: the stream has more than %d MiB", errTooMuch, maxStream>>20)
	}
	return answers.Wait(s.Context(), max(s.n-max(was, freeAnswer), 0))
}

// sizeOf returns how many bytes a message of gRPC has.
func sizeOf(message any) int {
	m, ok := message.(proto.Message)
	if !ok {
		return 0
	}
	return proto.Size(m)
}

func rpcError(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	switch s.Code() {
	case codes.Unavailable:
		return &awayError{s.Message(), strings.Contains(s.Message(), "while dialing")}
	case codes.ResourceExhausted:
		if strings.Contains(s.Message(), "larger than max") {
			return fmt.Errorf("%w: %s", errTooMuch, s.Message())
		}
		return &awayError{s.Message(), true}
	case codes.Internal:
		if strings.HasSuffix(s.Message(), errHeavy.Error()) { // the codec's
			return errHeavy
		}
	case codes.Unauthenticated, codes.PermissionDenied:
		return &refusedError{"the agent does not let Cortex in: " + s.Message()}
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	}
	return err
}

// isAway reports whether err means that the peer could not be reached or did not answer, and whether it did not get the request.
func isAway(err error) (away, unsent bool) {
	if e, ok := errors.AsType[*awayError](err); ok {
		return true, e.unsent
	}
	var refused *refusedError
	var protocol *a2a.Error
	if errors.As(err, &refused) || errors.As(err, &protocol) || errors.Is(err, errTooMuch) {
		return false, false
	}
	return isCutOff(err), false
}

var _ http.RoundTripper = (*exchange)(nil)
