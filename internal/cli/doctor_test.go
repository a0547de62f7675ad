package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/cli"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestReadyThoughDamaged flips a bit in the log and empties the notes: the service accepts work, and reports the damage.
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
		cli.Run(t.Context(), []string{"ask", "--data", data, "--conversation", contextID, words}, strings.NewReader(""), &b, new(output))
		return b.String()
	}
	_, _, stop := serve()
	for _, words := range []string{"Echo one", "Echo two", "Echo three"} {
		if got := ask("bad", words); !strings.Contains(got, strings.TrimPrefix(words, "Echo ")) {
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
	if got := ask("good", "Echo fine"); !strings.Contains(got, "Echo: fine") {
		t.Errorf("ask in another conversation = %q", got)
	}
	if got := ask("bad", "Echo more"); !strings.Contains(got, "is damaged") {
		t.Errorf("ask in the damaged conversation = %q, want that it is damaged", got)
	}
	if n := strings.Count(stderr.String(), `msg="a conversation is damaged: see cortex doctor" context_id=bad`); n != 1 {
		t.Errorf("the log names the conversation %d times, want once", n)
	}
}

// TestFilesTakenAway removes files of the store under a running service: the readiness check reports it, and the service accepts work as long as only
// optional data is missing. The next start works with the rest.
func TestFilesTakenAway(t *testing.T) {
	data := t.TempDir()
	serve := func() (stderr *output, url string, stop func() int) {
		stderr, stop = start(t, "serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "echo")
		eventually(t, "the service is ready", func() bool {
			url = readyURL.FindString(stderr.String())
			return url != ""
		})
		return stderr, url, stop
	}
	stderr, url, stop := serve()
	cli.Run(t.Context(), []string{"ask", "--data", data, "Echo one"}, strings.NewReader(""), new(bytes.Buffer), new(output))
	for _, tt := range []struct {
		stream string
		code   int
		log    string
	}{{"KV_CORTEX_AGENTS", http.StatusOK, "level=WARN"}, {"CORTEX_LOG", http.StatusServiceUnavailable, "level=ERROR"}} {
		if err := os.RemoveAll(filepath.Join(data, "nats", "jetstream", "$G", "streams", tt.stream)); err != nil {
			t.Fatal(err)
		}
		var code int
		var body string
		eventually(t, tt.stream+" is missed", func() bool {
			code, body = status(t, url)
			return code == tt.code && strings.Contains(body, "removed, emptied, damaged or replaced while cortex runs") && strings.Contains(body, tt.stream)
		})
		if !strings.Contains(body, "put the files back if you have them, and start again") {
			t.Errorf("/readyz without %s is %d, %q, want %d and what to do", tt.stream, code, body, tt.code)
		}
		if want := tt.log + ` msg="the files of a stream were removed or emptied while the server runs`; !strings.Contains(stderr.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, stderr.String())
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("serve exits %d", code)
	}
	_, url, _ = serve()
	eventually(t, "it takes work again, and says what is lost", func() bool {
		code, body := status(t, url)
		return code == http.StatusOK && strings.Contains(body, "CORTEX_LOG")
	})
}

// TestRepairWithKeys removes a stream of a store with keys. Without the keys, nothing is repaired or created, and what is known about the loss is
// kept.
func TestRepairWithKeys(t *testing.T) {
	data, keys, others := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{keys, others} {
		if err := auth.Init(dir); err != nil {
			t.Fatal(err)
		}
	}
	stderr, stop := start(t, "serve", "--auth", keys, "--data", data, "--http", "127.0.0.1:0", "--agents", "none")
	eventually(t, "the service is ready", func() bool { return readyURL.MatchString(stderr.String()) })
	if code := stop(); code != 0 {
		t.Fatalf("serve exits %d", code)
	}
	inbox, err := filepath.Glob(filepath.Join(data, "nats", "jetstream", "*", "streams", "CORTEX_INBOX"))
	if err != nil || len(inbox) != 1 || os.RemoveAll(inbox[0]) != nil {
		t.Fatalf("the inboxes are %v, %v, want one that can be removed", inbox, err)
	}
	doctor := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = cli.Run(t.Context(), append([]string{"doctor", "--data", data}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	for _, tt := range []struct {
		args []string
		want string
	}{{[]string{"--repair"}, "with the --auth of that service"}, {[]string{"--repair", "--auth", others}, "with other keys"}} {
		if code, out, errs := doctor(tt.args...); code == 0 || !strings.Contains(errs, tt.want) {
			t.Errorf("doctor %v = %d, %q, %q, want an error with %q", tt.args, code, out, errs, tt.want)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "nats", "jetstream", "$G")); !os.IsNotExist(err) {
		t.Errorf("a repair without keys has made an account without keys: %v", err)
	}
	if code, out, _ := doctor(); code != 1 || !strings.Contains(out, "CORTEX_INBOX: ") {
		t.Errorf("doctor after it = %d, %q, want that the inbox is damaged", code, out)
	}
	if code, out, errs := doctor("--repair", "--auth", keys); code != 0 || !strings.Contains(out, "is taken note of") {
		t.Errorf("doctor --repair with the keys = %d, %q, %q", code, out, errs)
	}
	if code, out, errs := doctor("--auth", keys); code != 0 {
		t.Errorf("doctor at last = %d, %q, %q, want that all is good", code, out, errs)
	}
}
