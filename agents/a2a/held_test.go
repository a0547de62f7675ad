package a2a_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	peers "github.com/cortex-orchestrator/cortex/agents/a2a"
)

// TestWhatIsRefusedIsNotHeld has peers say too much, by a bound of one task and by that of all: the task fails with words, and what it has given is not held
// while the peer is told to stop, which may take as long as it likes.
func TestWhatIsRefusedIsNotHeld(t *testing.T) {
	artifact := func(id, text string) string {
		return `data: {"jsonrpc":"2.0","id":"1","result":{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"` + id + `","parts":[{"text":"` + text + `"}]}}}}` + "\n\n"
	}
	for name, test := range map[string]struct {
		stream string
		free   int
		want   string
	}{
		"of one task":  {artifact("long", strings.Repeat("x", 60<<10)) + manyArtifacts(artifact), 128 << 20, "it says too much: a task has at most 100 artifacts"},
		"of all tasks": {artifact("long", strings.Repeat("x", 60<<10)) + artifact("longer", strings.Repeat("x", 60<<10)), 100 << 10, "there is no room for the agent's answer now"},
	} {
		t.Run(name, func(t *testing.T) {
			defer peers.Fill(test.free)()
			before := peers.Held()
			var mu sync.Mutex
			var during []int
			s := httptest.NewUnstartedServer(nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				switch {
				case r.URL.Path == a2asrv.WellKnownAgentCardPath:
					b, _ := json.Marshal(map[string]any{
						"name": "stranger", "description": "d", "version": "1", "capabilities": map[string]any{"streaming": true}, "skills": []any{},
						"supportedInterfaces": at(s.URL+"/rpc", "JSONRPC")["supportedInterfaces"],
					})
					w.Write(b)
				case bytes.Contains(b, []byte("CancelTask")):
					mu.Lock()
					during = append(during, peers.Held()-before)
					mu.Unlock()
					asJSON(`{"jsonrpc":"2.0","id":"1","result":{"id":"t","status":{"state":"TASK_STATE_CANCELED"}}}`)(w, r)
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":"1","result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}`+"\n\n"+test.stream)
				}
			})
			s.Start()
			defer s.Close()
			a := open(t, t.TempDir(), &peers.Peer{URL: s.URL})
			got := give(t.Context(), a, given{id: "1", message: "m", text: "hello"})
			if got.state != a2a.TaskStateFailed || !strings.Contains(got.text, test.want) {
				t.Errorf("got %s %.600q, want %q", got.state, got.text, test.want)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(during) != 1 || during[0] != 0 {
				t.Errorf("while it is canceled, %d bytes are held", during)
			}
		})
	}
}
