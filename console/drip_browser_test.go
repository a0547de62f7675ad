package console_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// drip is a model that writes an answer of 60 words, and after the first 20 goes on when its URL, which names the replica, has answered.
type drip struct{ url string }

func openDrip(_ context.Context, ep *app.Endpoint) (llm.Client, error) { return drip{ep.BaseURL}, nil }

// Generate implements [llm.Client].
func (d drip) Generate(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if !yield(llm.Chunk{Text: `{"kind":"respond","say":"`}, nil) {
			return
		}
		for i := range 60 {
			if i == 20 {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
				if err != nil {
					yield(llm.Chunk{}, err)
					return
				}
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					yield(llm.Chunk{}, err)
					return
				}
				answer.Body.Close()
			}
			if !yield(llm.Chunk{Text: fmt.Sprintf("word%d. ", i)}, nil) {
				return
			}
		}
		if yield(llm.Chunk{Text: `","delegations":[],"reason":"asked"}`}, nil) {
			yield(llm.Chunk{Done: true, Model: "drip-1"}, nil)
		}
	}
}

// TestReplicaIsKilledWhileItWrites kills the replica that serves a browser and writes an answer, in the middle of the text: the browser gets the answer
// of another replica, whole and once.
func TestReplicaIsKilledWhileItWrites(t *testing.T) {
	openBrowser(t)
	dir := t.TempDir()
	server, err := nats.StartServer(t.Context(), &nats.ServerOptions{Dir: filepath.Join(dir, "nats"), Listen: "127.0.0.1:0"})
	must(t, err)
	t.Cleanup(server.Shutdown)
	waiting, goOn := make(chan string), make(chan struct{})
	gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case waiting <- r.URL.Path:
		case <-r.Context().Done():
			return
		}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(gate.Close)
	start := func(name string) *replica {
		config := filepath.Join(dir, name+".yaml")
		must(t, os.WriteFile(config, fmt.Appendf(nil, "llms:\n  drip: {provider: drip, base_url: %s/%s}\n", gate.URL, name), 0o600))
		return startReplica(t, server.URL(), filepath.Join(dir, name), "--config", config, "--llm", "drip")
	}
	one, two := start("one"), start("two")
	proxy := newBalancer(t)
	proxy.to.Store(&one.address)
	p := newTab(t)
	p.open(fmt.Sprintf("http://%s/?token=%s", proxy.Addr(), one.token(t)))
	for { // until the one that serves the browser writes
		p.open(fmt.Sprintf("http://%s/", proxy.Addr()))
		p.say("tell me")
		if by := wait(t, waiting); by == "/one" {
			break
		}
		goOn <- struct{}{}
	}
	p.says("word19.")
	proxy.to.Store(&two.address)
	one.kill()
	if by := wait(t, waiting); by != "/two" {
		t.Fatalf("after the kill, %s writes", by)
	}
	p.await("document.querySelector('.is-open .draft')?.textContent.startsWith('word0.') && document.querySelector('.draft').textContent.includes('word19.')") // anew
	if text := eval[string](p, "document.querySelector('.draft').textContent"); strings.Count(text, "word7.") != 1 {
		t.Errorf("what is being written is %q", text)
	}
	goOn <- struct{}{}
	p.await("!document.querySelector('.offline, .is-open')")
	text := eval[string](p, "document.querySelector('.turns').innerText")
	for i := range 60 {
		if word := fmt.Sprintf("word%d.", i); strings.Count(text, word) != 1 {
			t.Fatalf("%s is there %d times in %q", word, strings.Count(text, word), text)
		}
	}
}

func wait(t *testing.T, c <-chan string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // a partition of a killed process changes its owner when its lease ends
	defer cancel()
	select {
	case s := <-c:
		return s
	case <-ctx.Done():
		t.Fatal("no model is asked")
		return ""
	}
}
