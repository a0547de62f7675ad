//go:build unix

package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// hooks take the push notifications of a pair's Cortex. Each errand has an address of its own there.
type hooks struct {
	t  *testing.T
	at string // host and port

	mu  sync.Mutex
	got map[string][]a2a.Event // by address
}

func newHooks(t *testing.T) *hooks {
	h := &hooks{t: t, got: map[string][]a2a.Event{}}
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	h.at = strings.TrimPrefix(s.URL, "http://")
	return h
}

// ServeHTTP implements [http.Handler].
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var said a2a.StreamResponse
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	if err != nil {
		h.t.Errorf("%s is pushed %q: %v", r.URL.Path, body, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if token := r.Header.Get("A2A-Notification-Token"); "/"+token != r.URL.Path {
		h.t.Errorf("%s is pushed something with the token %q", r.URL.Path, token)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got[r.URL.Path] = append(h.got[r.URL.Path], said.Event)
}

// of returns the configuration for the notifications of an errand; nil if Cortex has none.
func (h *hooks) of(e *errand) *a2a.PushConfig {
	if h == nil {
		return nil
	}
	return &a2a.PushConfig{ID: "hook", URL: (&url.URL{Scheme: "http", Host: h.at, Path: "/" + e.word()}).String(), Token: e.word()}
}

// said returns the number of notifications of an errand, and reports whether one said how it ended.
func (h *hooks) said(e *errand) (n int, ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.got["/"+e.word()]
	for _, event := range all {
		if id := event.TaskInfo().TaskID; id != e.id {
			e.wrong("a notification is about the task %s", id)
		}
		state := a2a.TaskState("")
		switch event := event.(type) {
		case *a2a.Task:
			state = event.Status.State
		case *a2a.TaskStatusUpdateEvent:
			state = event.Status.State
		}
		if state.Terminal() && state != e.state {
			e.wrong("a notification says that it is %s", state)
		}
		ended = ended || state == e.state
	}
	return len(all), ended
}
