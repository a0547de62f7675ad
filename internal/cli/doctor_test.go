package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

// TestReadyThoughDamaged flips a bit in the log and empties the notes: the service takes work, and says what is damaged.
func TestReadyThoughDamaged(t *testing.T) {
	data := t.TempDir()
	serve := func() (stderr *output, url string, stop func() int) {
		stderr, stop = start(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "echo")
		eventually(t, "the service is ready", func() bool {
			url = readyURL.FindString(stderr.String())
			return url != ""
		})
		return stderr, url, stop
	}
	ask := func(contextID, words string) (out string) {
		var b bytes.Buffer
		cli.Run(t.Context(), []string{"ask", "--data", data, "--context", contextID, words}, strings.NewReader(""), &b, new(output))
		return b.String()
	}
	_, _, stop := serve()
	for _, words := range []string{"Echo one", "Echo two", "Echo three"} {
		if got := ask("bad", words); !strings.Contains(got, words) {
			t.Fatalf("ask %q = %q", words, got)
		}
	}
	if code := stop(); code != 0 {
		t.Fatalf("serve exits %d", code)
	}
	streams := filepath.Join(data, "nats", "jetstream", "$G", "streams")
	log := filepath.Join(streams, "CORTEX_LOG", "msgs", "1.blk")
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte("Echo two"))] ^= 1
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(streams, "KV_CORTEX_NOTES", "msgs", "1.blk"), 0); err != nil {
		t.Fatal(err)
	}

	stderr, url, _ := serve()
	var body string
	eventually(t, "it takes work", func() bool {
		code := 0
		code, body = status(t, url)
		return code == http.StatusOK
	})
	for _, want := range []string{"damaged: 1 of the conversations", "lost: 1 entries", "CORTEX_LOG, KV_CORTEX_NOTES"} {
		if !strings.Contains(body, want) {
			t.Errorf("/readyz is %q, want %q in it", body, want)
		}
	}
	if got := ask("good", "Echo fine"); !strings.Contains(got, "Echo fine") {
		t.Errorf("ask in another conversation = %q", got)
	}
	if got := ask("bad", "Echo more"); !strings.Contains(got, "is damaged") {
		t.Errorf("ask in the damaged conversation = %q, want that it is damaged", got)
	}
	if n := strings.Count(stderr.String(), `msg="a conversation is damaged: see cortex doctor" context_id=bad`); n != 1 {
		t.Errorf("the log names the conversation %d times, want once", n)
	}
}
