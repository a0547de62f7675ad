package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/cortex-orchestrator/cortex/transport"
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

// TestLastWordsAreNotKept has a peer say much of the state of a task that goes on after a restart, and then be away: nothing counts what it said, so it is not
// kept meanwhile.
func TestLastWordsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *work
		asked := 0
		a := calling(t, io.Discard, func(r *http.Request) *http.Response {
			if asked++; asked > 1 {
				if w.last.Message != nil {
					t.Errorf("%d bytes are kept of what it said last", len(transport.Text(w.last.Message.Parts)))
				}
				return &http.Response{StatusCode: http.StatusBadGateway, Status: "502 Bad Gateway", Header: http.Header{}, Body: http.NoBody, Request: r}
			}
			body := `{"jsonrpc":"2.0","id":"1","result":{"id":"t","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"` + strings.Repeat("x", freeAnswer/2) + `"}]}}}}`
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w = &work{a: a, t: &agents.Task{Message: &a2a.Message{ID: "m"}}, r: &record{Message: "m", Attempt: 1, Task: "t"}}
		if _, err := w.do(ctx); !errors.Is(err, context.DeadlineExceeded) || asked < 2 {
			t.Errorf("it was asked %d times: %v", asked, err)
		}
	})
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
