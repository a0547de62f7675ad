package a2a

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
)

// calling returns an agent whose peer is answered for.
func calling(t *testing.T, log io.Writer, peer answering) *Agent {
	t.Helper()
	a := &Agent{peer: &Peer{}, home: &url.URL{Scheme: "http", Host: "peer.test"}, log: slog.New(slog.NewTextHandler(log, nil)), look: make(chan struct{}, 1), busy: map[string]int{}}
	a.http = &http.Client{Transport: &exchange{a, peer}}
	conn, err := a.connect(t.Context(), &a2a.AgentCard{SupportedInterfaces: []*a2a.AgentInterface{{URL: "http://peer.test/rpc", ProtocolBinding: a2a.TransportProtocolJSONRPC}}})
	if err != nil {
		t.Fatal(err)
	}
	a.conn = conn
	return a
}

// TestPeerThatIsAwayIsAskedLessOften has a task looked for, and asked for, at a peer that is away for an hour: it is not asked all the time.
func TestPeerThatIsAwayIsAskedLessOften(t *testing.T) {
	for name, ask := range map[string]func(*work, context.Context) error{
		"look":   func(w *work, ctx context.Context) error { return w.look(ctx) },
		"search": func(w *work, ctx context.Context) error { _, err := w.search(ctx, ""); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			a := calling(t, io.Discard, func(r *http.Request) *http.Response {
				asked++
				return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Header: http.Header{}, Body: http.NoBody, Request: r}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err := ask(&work{a: a, t: &agents.Task{}, r: &record{Task: "t"}}, ctx)
			if least := int(time.Hour / maxPoll / 2); err == nil || asked < least || asked > 4*least {
				t.Errorf("%s: it was asked %d times: %v", name, asked, err)
			}
		})
	}
}
