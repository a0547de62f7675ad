package a2a_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/a2a"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// receiver takes push notifications.
type receiver struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	got    []pushed
	status int // that it answers; 0: 200
	tried  int
	by     map[string]int           // the same, by who has tried
	ids    map[string][]string      // of what was not taken, by path
	slow   map[string]chan struct{} // by path: it answers when this is closed
	within int                      // how many wait for that
	most   int                      // and how many did at most
}

type pushed struct {
	path   string
	header http.Header
	body   []byte
	event  sdk.Event
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t, by: map[string]int{}, ids: map[string][]string{}}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried++
	r.by[req.Header.Get("User-Agent")]++
	if slow := r.slow[req.URL.Path]; slow != nil {
		r.within++
		r.most = max(r.most, r.within)
		r.mu.Unlock()
		select {
		case <-slow:
		case <-req.Context().Done():
		}
		r.mu.Lock()
		r.within--
	}
	if r.status != 0 || err != nil {
		r.ids[req.URL.Path] = append(r.ids[req.URL.Path], req.Header.Get("Idempotency-Key"))
		w.Header().Set("Location", r.url)
		w.WriteHeader(r.status)
		return
	}
	var of sdk.StreamResponse
	if err := json.Unmarshal(body, &of); err != nil && req.Header.Get("A2A-Version") == "1.0" {
		r.t.Errorf("%s: %v", body, err)
	}
	r.got = append(r.got, pushed{req.URL.Path, req.Header, body, of.Event})
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) tries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tried
}

// triedBy returns how often a server has tried.
func (r *receiver) triedBy(version string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by["cortex/"+version]
}

// all returns what was taken at a path, in order.
func (r *receiver) all(path string) []pushed {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []pushed
	for _, p := range r.got {
		if p.path == path {
			all = append(all, p)
		}
	}
	return all
}

// words returns what was taken at a path, one word a notification.
func (r *receiver) words(path string) string {
	var all []string
	for _, p := range r.all(path) {
		switch e := p.event.(type) {
		case *sdk.TaskStatusUpdateEvent:
			all = append(all, strings.ToLower(strings.TrimPrefix(string(e.Status.State), "TASK_STATE_")))
		case *sdk.TaskArtifactUpdateEvent:
			all = append(all, string(e.Artifact.ID))
		default:
			all = append(all, "?")
		}
	}
	return strings.Join(all, " ")
}

// pushing returns the address of a server that pushes, and the server.
func (w *world) pushing(identify a2a.Identify, change func(*a2a.Config)) (string, *a2a.Server) {
	d := w.doorWith(func(c *a2a.Config) {
		c.Push = &a2a.Push{Hosts: []string{"127.0.0.1"}, Rest: hasty}
		change(c)
	})
	w.deliver(d)
	return w.serve(d, identify), d
}

// deliver has a server push until the test, or the function, ends it.
func (w *world) deliver(d *a2a.Server) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Push(ctx) }()
	end = sync.OnceFunc(func() {
		stop()
		must(w.t, <-done)
	})
	w.t.Cleanup(end)
	return end
}

// hasty waits a thousandth of what it is told to.
func hasty(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d / 1000):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func plain(*a2a.Config) {}

// pushTo returns r with a push notification config.
func pushTo(r *sdk.SendMessageRequest, url string) *sdk.SendMessageRequest {
	if r.Config == nil {
		r.Config = &sdk.SendMessageConfig{}
	}
	r.Config.PushConfig = &sdk.PushConfig{URL: url, Token: "tok", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret"}}
	return r
}

// notes returns how many notes about push notifications are stored.
func (w *world) notes() int {
	n := 0
	for _, err := range w.store.Notes(w.t.Context(), "", storage.NotePush) {
		must(w.t, err)
		n++
	}
	return n
}

// noted returns the version of the log up to which the only config that is stored has got everything.
func (w *world) noted() (at conversation.Version) {
	for n, err := range w.store.Notes(w.t.Context(), "", storage.NotePush) {
		must(w.t, err)
		var of struct {
			Targets []struct {
				Next struct{ Version conversation.Version }
			}
		}
		must(w.t, json.Unmarshal(n.Value, &of))
		at = of.Targets[0].Next.Version
	}
	return at
}

// length returns the last version of a log.
func (w *world) length(contextID string) (at conversation.Version) {
	for e, err := range w.store.Load(w.t.Context(), "", contextID, 0) {
		must(w.t, err)
		at = e.Version
	}
	return at
}
