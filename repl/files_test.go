package repl

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/hinshun/vt10x"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// TestOlderFilesAreSaved has a chat get more files than it has at hand, some of them in a conversation that it took up again: all can be saved.
func TestOlderFilesAreSaved(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	g := glass{vt10x.New(vt10x.WithSize(80, 100))}
	c := &chat{ui: &ui{screen: screen{w: g}}, contextID: "ctx"}
	c.Client = &client.Client{Transport: bus}
	files := func(i int) (parts []*a2a.Part) {
		for n := range 2 {
			parts = append(parts, &a2a.Part{Content: a2a.Raw(bytes.Repeat([]byte{byte(i), byte(n)}, 1<<19)), Filename: fmt.Sprintf("%d-%d.bin", i, n)})
		}
		return parts
	}
	c.Backend.History = func(_ context.Context, contextID string) iter.Seq2[*Line, error] {
		return func(yield func(*Line, error) bool) {
			for i := range 12 {
				said, answered := &Line{Kind: LineUser, Text: "go on", Files: files(100)}, &Line{Kind: LineAnswer, Text: contextID, ID: fmt.Sprint("a", i), Files: files(i)}
				if !yield(said, nil) || !yield(answered, nil) {
					return
				}
			}
		}
	}
	if err := c.resume(t.Context(), "ctx"); err != nil {
		t.Fatal(err)
	}
	if got := g.text(); !strings.Contains(got, "file 1: 9-0.bin, application/octet-stream, 1.0 MB (/save 1)") || !strings.Contains(got, "(/save 6)") || strings.Contains(got, "(/save 7)") {
		t.Errorf("the screen of a conversation that is taken up again has\n%s\nwant the files of its last three answers", got)
	}
	for i := range 12 {
		c.brought(t.Context(), "ctx", fmt.Sprint("a", i), files(i))
	}
	held := 0
	for _, got := range c.got {
		raw, _ := got.part.Content.(a2a.Raw)
		held += len(raw)
	}
	if held > maxGot || held == 0 {
		t.Errorf("%d bytes are held, want at most %d", held, maxGot)
	}
	dir := t.TempDir()
	for n := range c.got {
		if err := c.save(t.Context(), fmt.Sprint(n+1, " ", dir)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		for n, p := range files(i) {
			if b, err := os.ReadFile(filepath.Join(dir, p.Filename)); err != nil || !bytes.Equal(b, p.Content.(a2a.Raw)) {
				t.Errorf("file %d of answer %d is %d bytes, %v", n, i, len(b), err)
			}
		}
	}
}

// TestNamesAreAsTheyAre has files whose names have several spaces, and what breaks a line: they are named so that they can be copied.
func TestNamesAreAsTheyAre(t *testing.T) {
	bus := memory.New(nil)
	defer bus.Close()
	var said bytes.Buffer
	dir := t.TempDir()
	c := Config{Client: &client.Client{Transport: bus}, Stderr: &said, Output: dir}
	m := a2a.NewMessage(a2a.MessageRoleAgent, &a2a.Part{Content: a2a.Raw("x"), Filename: "a b  .txt"})
	if err := c.Keep(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := "wrote " + filepath.Join(dir, "a b  .txt") + "\n"; said.String() != want {
		t.Errorf("Keep said %q, want %q", said.String(), want)
	}
	if got, want := oneName("a\x1b[31m\n  b"), "a\ufffd  b"; got != want {
		t.Errorf("oneName = %q, want %q", got, want)
	}
	c.Files = make([]string, transport.MaxFiles+1)
	if _, err := c.Message(t.Context(), "ctx", "hello"); err == nil || err.Error() != "at most 64 files go with a message" {
		t.Errorf("Message with one file too many: %v", err)
	}
}
