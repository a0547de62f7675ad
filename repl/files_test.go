package repl_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestMessageLeavesNoFiles makes a message that cannot be sent: none of its files remains stored.
func TestMessageLeavesNoFiles(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	path := filepath.Join(t.TempDir(), "a.bin")
	if err := os.WriteFile(path, make([]byte, 2*transport.MaxInlineFile), 0o600); err != nil {
		t.Fatal(err)
	}
	c := repl.Config{Client: &client.Client{Transport: bus}, Files: []string{path}}
	if _, err := c.Message(t.Context(), "c", strings.Repeat("x", transport.MaxPayload)); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Message of too many words = %v, want ErrTooLarge", err)
	}
	for o, err := range bus.Objects(t.Context(), "") {
		t.Errorf("the message is refused, and file %s is stored, %v", o.ID, err)
	}
	second := filepath.Join(t.TempDir(), "b.bin")
	c.Files = []string{path, second} // which no longer exists
	if _, err := c.Message(t.Context(), "c", "look"); err == nil {
		t.Errorf("Message with a file that is not there = nil, want an error")
	}
	for o, err := range bus.Objects(t.Context(), "") {
		t.Errorf("another file of the message is not there, and file %s is stored, %v", o.ID, err)
	}
	c.Files = []string{path}
	for _, text := range []string{"look", ""} {
		if m, err := c.Message(t.Context(), "c", text); err != nil || len(transport.FilesOf(m.Parts)) != 1 {
			t.Errorf("Message of %q = %+v, %v, want one with a file", text, m, err)
		}
	}
}
