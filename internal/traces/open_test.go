package traces

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// fakeCollector receives spans over OTLP.
type fakeCollector struct {
	collector.UnimplementedTraceServiceServer

	got chan *collector.ExportTraceServiceRequest
}

func (c *fakeCollector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

func (c *fakeCollector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var got collector.ExportTraceServiceRequest
	if b, err := io.ReadAll(r.Body); err == nil && proto.Unmarshal(b, &got) == nil {
		c.got <- &got
	}
}

// TestOpen exports a turn with each protocol, as the environment says.
func TestOpen(t *testing.T) {
	for _, protocol := range []string{"", "http/protobuf", "grpc"} {
		t.Run("protocol="+protocol, func(t *testing.T) {
			c := &fakeCollector{got: make(chan *collector.ExportTraceServiceRequest, 10)}
			if protocol == "grpc" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server := grpc.NewServer()
				collector.RegisterTraceServiceServer(server, c)
				served := make(chan error, 1)
				go func() { served <- server.Serve(l) }()
				t.Cleanup(func() {
					server.Stop()
					if err := <-served; err != nil {
						t.Error(err)
					}
				})
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
			} else {
				server := httptest.NewServer(c)
				t.Cleanup(server.Close)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
			}
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
			tr, err := Open(t.Context(), Options{Version: "1.2.3", Instance: "i", Getenv: os.Getenv, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			oneTurn(t, tr, "c", "")
			tr.Close()
			spans := receive(t, c.got, "spans").ResourceSpans[0]
			if n := len(spans.ScopeSpans[0].Spans); n != 2 {
				t.Errorf("%d spans, want a decision and a turn", n)
			}
			of := map[string]string{}
			for _, a := range spans.Resource.Attributes {
				of[a.Key] = a.Value.GetStringValue()
			}
			for k, want := range map[string]string{
				"service.name": "cortex", "service.version": "1.2.3", "service.instance.id": "i", "service.namespace": "default", "deployment.environment": "test",
			} {
				if of[k] != want {
					t.Errorf("the resource has %s=%q, want %q", k, of[k], want)
				}
			}
		})
	}
}

// TestOpenWrong names the variable that has a wrong value.
func TestOpenWrong(t *testing.T) {
	for _, pair := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=udp", "OTEL_TRACES_EXPORTER=zipkin"} {
		key, value, _ := strings.Cut(pair, "=")
		_, err := Open(t.Context(), Options{Logger: slog.New(slog.DiscardHandler), Getenv: func(k string) string { return map[string]string{key: value}[k] }})
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), value) {
			t.Errorf("Open with %s: %v, want an error that names it", pair, err)
		}
	}
}
