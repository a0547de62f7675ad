//go:build unix

package repl

import (
	"context"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hinshun/vt10x"

	"github.com/cortex-orchestrator/cortex/client"
)

// TestExportReplacesFilesOnly exports to paths that are no regular files, which must not change, and through a link.
func TestExportReplacesFilesOnly(t *testing.T) {
	dir, err := os.MkdirTemp("", "export") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	at := func(name string) string { return filepath.Join(dir, name) }
	c := &chat{ui: &ui{screen: screen{w: glass{vt10x.New()}}}, contextID: "ctx"}
	c.Backend.History = func(context.Context, string) iter.Seq2[*client.Line, error] {
		return func(yield func(*client.Line, error) bool) { yield(&client.Line{Text: "said"}, nil) }
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.WriteFile(at("file"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "file", "dangling": "nothing", "tofifo": "fifo", "tofolder": "."} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, want string
		mode       fs.FileMode
	}{
		{"fifo", "is no file", fs.ModeNamedPipe},
		{"socket", "is no file", fs.ModeSocket},
		{"tofifo", "fifo is no file", fs.ModeSymlink},
		{"dangling", "is a link to nothing", fs.ModeSymlink},
		{"tofolder", "is a folder", fs.ModeSymlink},
	} {
		for how, export := range map[string]func(context.Context, string) error{"/export": c.export, "/export!": c.exportOver} {
			if err := export(t.Context(), at(tc.name)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s %s = %v, want %q", how, tc.name, err, tc.want)
			}
			if info, err := os.Lstat(at(tc.name)); err != nil || info.Mode().Type() != tc.mode {
				t.Errorf("after %s, %s is %v, %v", how, tc.name, info.Mode(), err)
			}
		}
	}
	if err := c.export(t.Context(), at("link")); err == nil || !strings.Contains(err.Error(), "exists; /export!") {
		t.Errorf("/export link = %v", err)
	}
	if err := c.exportOver(t.Context(), at("link")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(at("link")); err != nil || to != "file" {
		t.Errorf("the link is one to %q, %v", to, err)
	}
	if b, err := os.ReadFile(at("file")); err != nil || !strings.Contains(string(b), "said") {
		t.Errorf("the file has %q, %v", b, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 7 {
		t.Errorf("left behind: %v", entries)
	}
}
