package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestLooseFiles has a person with keys store a file without sending its message, and another with its message. The doctor reports the owner of the
// orphan, with and without a running service, and the orphan is removed.
func TestLooseFiles(t *testing.T) {
	k := newKeyed(t)
	creds := k.person("ada")
	person := k.dial(creds)
	large := filepath.Join(t.TempDir(), "large.bin")
	if err := os.WriteFile(large, make([]byte, 2*transport.MaxInlineFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := k.run(creds, "ask", "--conversation", "said", "--file", large, "hello"); code != 0 {
		t.Fatalf("ask exits %d: %s", code, stderr)
	}
	if _, err := transport.PutFile(t.Context(), person, "", "unsaid", "user:ada", bytes.NewReader(make([]byte, 1_000_000)), 1<<30); err != nil {
		t.Fatal(err)
	}
	const line = "\n  1 of user:ada, 1.0 MB\n"
	if code := k.stop(); code != 0 {
		t.Fatalf("serve exits %d", code)
	}
	doctor := run(t, "doctor", "--data", k.data, "--auth", k.keys)
	if doctor.code != 0 || !strings.Contains(doctor.stdout, line) {
		t.Errorf("doctor without a service exits %d and says %q, want %q", doctor.code, doctor.stdout, line)
	}
	var is struct {
		Loose []erase.Loose `json:"loose_files"`
	}
	asJSON := run(t, "doctor", "--data", k.data, "--auth", k.keys, "--json")
	if err := json.Unmarshal([]byte(asJSON.stdout), &is); err != nil || len(is.Loose) != 1 || is.Loose[0].Files != 1 {
		t.Errorf("doctor --json says %s, %v, want one file", asJSON.stdout, err)
	}

	k.start()
	eventually(t, "the doctor says it beside a service", func() bool {
		doctor = run(t, "doctor", "--data", k.data, "--auth", k.keys)
		return doctor.code == 0 && strings.Contains(doctor.stdout, line)
	})
	bus := k.dial(auth.Admin(k.keys, ""))
	store, err := jetstore.Open(t.Context(), bus.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // as several replicas do
		later := &erase.Orphans{Store: store, Bus: bus, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }}
		if _, err := later.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	for o, err := range bus.Objects(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, o.ContextID)
	}
	if len(left) != 1 || left[0] != "said" {
		t.Errorf("after two hours there are files of %q, want the one that a message has brought", left)
	}
	if code, _, stderr := k.run(creds, "sessions", "delete", "--yes", "said"); code == 0 || !strings.Contains(stderr, "ask whoever runs Cortex") {
		t.Errorf("a person's sessions delete exits %d and says %q, want whom to ask", code, stderr)
	}
}
