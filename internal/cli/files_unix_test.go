//go:build unix

package cli_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

// TestFilesThatDoNotEnd checks that a command that waits for the rest of a file can be interrupted.
func TestFilesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"config":     {"agents", "--config", "PIPE"},
		"card":       {"agent", "exec", "--card", "PIPE", "--", "cat"},
		"spec":       {"agent", "exec", "--spec", "PIPE", "--", "cat"},
		"well-known": {"serve", "--http", "none", "--well-known", "PIPE"},
		"eval":       {"eval", "routing", "--agents", "PIPE", "--queries", "PIPE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range args {
				args[i] = strings.Replace(args[i], "PIPE", pipe, 1)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code := make(chan int, 1)
			go func() {
				code <- cli.Run(ctx, append(args, "--data", t.TempDir()), strings.NewReader(""), io.Discard, io.Discard)
			}()
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the command reads
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if _, err := w.WriteString("n"); err != nil {
				t.Fatal(err)
			}
			cancel()
			select {
			case got := <-code:
				if service := args[0] == "serve"; (got == 0) != service {
					t.Errorf("exit status %d of a command that was stopped, want 0 of a service only", got)
				}
			case <-time.After(patience):
				t.Error("the command does not end")
			}
		})
	}
}

// TestFilesOfOthersThatDoNotEnd replaces the files that processes leave for others by pipes: no process waits for them, and they are replaced. Then
// it is unknown whether there were keys, which the user has to state.
func TestFilesOfOthersThatDoNotEnd(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	for _, name := range []string{"server.json", "server.json.new", "last.json", "port"} {
		if err := syscall.Mkfifo(filepath.Join(data, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("auth: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(t.Context(), []string{"ask", "--data", data, "--config", config, "Echo this!"}, strings.NewReader(""), &stdout, &stderr)
	}()
	select {
	case got := <-code:
		if got != 0 || stdout.String() != "Echo: Echo this!\n" {
			t.Errorf("ask = %d, %q, %q, want the answer", got, &stdout, &stderr)
		}
	case <-time.After(patience):
		t.Fatal("the command waits at a pipe")
	}
	for _, name := range []string{"last.json", "port"} {
		if info, err := os.Lstat(filepath.Join(data, name)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is %v, %v, want a file", name, info, err)
		}
	}
}
