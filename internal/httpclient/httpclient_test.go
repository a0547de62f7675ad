package httpclient_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
)

// TestDeadConnection checks that a silent connection is given up within a minute.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		drained := make(chan struct{})
		go func() { // a server that starts HTTP/2 and then only reads
			defer close(drained)
			emptySettings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
			preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			if _, err := io.ReadFull(far, preface); err != nil {
				return
			}
			go func() { _, _ = far.Write(emptySettings) }()
			_, _ = io.Copy(io.Discard, far)
		}()
		transport := httpclient.NewTransport(0)
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return near, nil }
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.com/", nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		response, err := transport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if took := time.Since(begun); err == nil || took > time.Minute {
			t.Errorf("RoundTrip = %v after %v, want an error within a minute", err, took)
		}
		_ = near.Close()
		_ = far.Close()
		<-drained
	})
}

// TestConnectionsAreBounded checks that the argument of NewTransport bounds the connections.
func TestConnectionsAreBounded(t *testing.T) {
	if got := httpclient.NewTransport(7).MaxConnsPerHost; got != 7 {
		t.Errorf("MaxConnsPerHost = %d, want 7", got)
	}
}
