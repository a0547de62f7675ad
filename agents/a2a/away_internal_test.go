package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
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

// TestOrphansAreNamed checks that who reads that a task was not canceled learns which one.
func TestOrphansAreNamed(t *testing.T) {
	var log bytes.Buffer
	a := calling(t, &log, func(r *http.Request) *http.Response {
		body := `{"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no"}}`
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
	})
	var err error
	if a.journal, err = openJournal(t.TempDir(), time.Now(), a.log); err != nil {
		t.Fatal(err)
	}
	defer a.journal.Close()
	for _, id := range []a2a.TaskID{"refused", "damaged"} {
		of := &agents.Task{Tenant: "t", ContextID: "c", ID: id}
		if err := a.journal.opened(of); err != nil {
			t.Fatal(err)
		}
		r := &record{Task: "theirs", Of: agents.KeptTask{Tenant: "t", ContextID: "c", ID: id}}
		if err := a.journal.Write(of, r); err != nil {
			t.Fatal(err)
		}
	}
	damaged := a.journal.Path("t", "c", "damaged")
	b, err := json.Marshal("no record")
	if err == nil {
		err = taskfile.Write(damaged, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.cancelDue(t.Context())
	for _, want := range []string{"task_id=refused", "record=" + filepath.Base(damaged)} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
}
