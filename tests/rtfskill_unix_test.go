//go:build unix

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rtfsKills is the number of kills in TestRTFSKilled; RTFS_KILLS overrides it, and RTFS_SEED what is random.
const rtfsKills = 5

// rtfsWorld is a Cortex that is a registry, with an agent that registers once.
type rtfsWorld struct {
	t       *testing.T
	address string
	cortex  *process
	agent   *httptest.Server

	mu       sync.Mutex
	done     map[string]int // executions of the agent, by what it was asked
	answered atomic.Int64
	said     map[string]string // answers, likewise
}

func newRTFSWorld(t *testing.T, seed uint64) *rtfsWorld {
	t.Helper()
	dir := t.TempDir()
	w := &rtfsWorld{t: t, address: freeAddress(t), done: map[string]int{}, said: map[string]string{}}
	random := rand.New(rand.NewPCG(seed, 1))
	w.agent = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var call struct {
			Input struct {
				Text string `json:"text"`
			} `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			return // the call was cut off before it was whole
		}
		w.mu.Lock()
		w.done[call.Input.Text]++
		pause := time.Duration(random.IntN(200)) * time.Millisecond
		w.mu.Unlock()
		<-time.After(pause)
		fmt.Fprintf(rw, `{"success":true,"output":"done: %s"}`, call.Input.Text)
	}))
	t.Cleanup(w.agent.Close)
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("rules:\n  - agents: ['rtfs:*']\n    requests_per_minute: 1000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cortex = serveKilled(t, dir, nil, "--policy", policy, "--rtfs", w.address)
	return w
}

// post posts a body until there is an answer.
func (w *rtfsWorld) post(ctx context.Context, path, key, body string) string {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.address+path, strings.NewReader(body))
		if err != nil {
			w.t.Error(err)
			return ""
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		if a, err := http.DefaultClient.Do(r); err == nil {
			text, err := io.ReadAll(a.Body)
			a.Body.Close()
			if err == nil && a.StatusCode == http.StatusOK {
				return string(text)
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	return ""
}

// call has the agent do something by way of Cortex, with a key, until the answer is there, which it returns.
func (w *rtfsWorld) call(ctx context.Context, what string) (said string) {
	for ctx.Err() == nil {
		var a struct {
			Output   string         `json:"output"`
			Error    *string        `json:"error"`
			Metadata map[string]any `json:"metadata"`
		}
		text := w.post(ctx, "/agents/worker", what, fmt.Sprintf(`{"capability_id":"work","input":{"text":%q},"metadata":{"client":"test"}}`, what))
		switch err := json.Unmarshal([]byte(text), &a); {
		case ctx.Err() != nil:
		case err != nil:
			w.t.Errorf("%q: %v", text, err)
		case a.Error == nil:
			return a.Output
		case a.Metadata["task_id"] != nil && *a.Error != "still working" && !strings.HasPrefix(*a.Error, "Cortex cannot do it now"):
			return *a.Error
		}
		<-time.After(20 * time.Millisecond) // the agent is not there yet, or at work
	}
	return ""
}

// TestRTFSKilled kills Cortex at random while its agents are called with keys, which all go on to the agent that has registered. The registration outlives
// each kill, nothing is done twice, and each call has one answer for good.
func TestRTFSKilled(t *testing.T) {
	kills, seed := killing(t, "RTFS", rtfsKills)
	w := newRTFSWorld(t, seed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(kills)*10*time.Second)
	defer cancel()
	registered := w.post(ctx, "/rtfs", "", fmt.Sprintf(`{"jsonrpc":"2.0","id":"r","method":"rtfs.registry.register","params":{"agent_card":{"agent_id":"worker","name":"Worker",`+
		`"capabilities":[{"capability_id":"work"}]},"endpoint_url":%q,"ttl_seconds":3600}}`, w.agent.URL))
	if !strings.Contains(registered, `"status":"registered"`) {
		t.Fatal(registered)
	}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				select {
				case <-stop:
					return
				default:
				}
				what := fmt.Sprintf("work %d of %d", n, i)
				said := w.call(ctx, what)
				w.mu.Lock()
				w.said[what] = said
				w.mu.Unlock()
				w.answered.Add(1)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 0))
	more := func() { awaitMore(ctx, t, &w.answered) }
	more()
	for range kills {
		<-time.After(time.Duration(random.IntN(700)) * time.Millisecond)
		w.cortex.kill()
		w.cortex.begin(t, "Cortex")
		found := w.post(ctx, "/rtfs", "", `{"jsonrpc":"2.0","id":"d","method":"rtfs.registry.discover","params":{"agent_id":"worker"}}`)
		if !strings.Contains(found, `"total_count":1`) {
			t.Errorf("after a kill: %s", found)
		}
		more()
	}
	close(stop)
	callers.Wait()
	w.report(ctx, kills)
}

// report checks what was said and done.
func (w *rtfsWorld) report(ctx context.Context, kills int) {
	done, unknown, refused := 0, 0, map[string]int{}
	for what, said := range w.said {
		n := w.done[what]
		switch {
		case n > 1:
			w.t.Errorf("%s was done %d times", what, n)
		case said == "done: "+what && n == 1:
			done++
		case strings.Contains(said, "it may have been done, or not"):
			unknown++
		case n == 0 && said != "":
			refused[said]++
		default:
			w.t.Errorf("%s was done %d times, and its answer is %q", what, n, said)
		}
	}
	for what, said := range w.said {
		if again := w.call(ctx, what); again != said {
			w.t.Errorf("%s is answered with %q, and before with %q", what, again, said)
		}
	}
	for what, n := range w.done {
		if n > 1 {
			w.t.Errorf("%s was done %d times, also by calls that were made again", what, n)
		}
	}
	if ctx.Err() != nil {
		w.t.Error("it took too long")
	}
	w.t.Logf("%d kills: %d calls, of which %d were done, %d perhaps, and others not: %v", kills, len(w.said), done, unknown, refused)
}
