package repl

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hinshun/vt10x"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestFilesStayAttached checks that files of a message that could not be sent go with the next one, and that the chat says so, and how to detach
// them.
func TestFilesStayAttached(t *testing.T) {
	dir := t.TempDir()
	attached := filepath.Join(dir, "a.txt")
	if err := os.WriteFile(attached, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", transport.MaxText+1)
	const one = "a.txt is still attached: it goes with your next message; /attach none takes it back"
	for name, test := range map[string]struct {
		text  string
		files []string
		away  bool // the transport is unavailable
		want  string
	}{
		"too long":    {long, []string{attached}, false, one},
		"a file less": {"go", []string{attached, filepath.Join(dir, "none")}, false, "a.txt and 1 more are still attached: they go with your next message; /attach none takes them back"},
		"away":        {"go", []string{attached}, true, one},
	} {
		t.Run(name, func(t *testing.T) {
			bus := memory.New(nil)
			defer bus.Close()
			if test.away {
				bus.Close()
			}
			g := glass{vt10x.New(vt10x.WithSize(120, 20))}
			edit := newPlainEditor(strings.NewReader(""), io.Discard, nil)
			defer edit.Close()
			c := &chat{ui: &ui{screen: screen{w: g}, editor: edit}, contextID: "ctx", present: newPresence()}
			c.Client = &client.Client{Transport: bus}
			c.Files = test.files
			c.turn(t.Context(), test.text)
			got := g.text()
			if len(c.Files) != len(test.files) || !strings.Contains(got, "error: ") || !strings.HasSuffix(strings.Join(strings.Fields(got), " "), test.want) {
				t.Errorf("%d files are attached, and the screen says\n%s\nwant an error, and %q", len(c.Files), got, test.want)
			}
			if err := c.attach(t.Context(), ""); err != nil || len(c.Files) != len(test.files) || !strings.Contains(g.text(), "/attach none takes all back") {
				t.Errorf("/attach alone = %v, and %d files are attached; the screen says\n%s", err, len(c.Files), g.text())
			}
			if err := c.attach(t.Context(), "none"); err != nil || len(c.Files) != 0 {
				t.Errorf("/attach none = %v, and %d files are attached", err, len(c.Files))
			}
		})
	}
}
