//go:build unix

package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// program writes a program that replaces cortex: it writes its pid to a file, prints a server's log, and then executes then. It fails if it has
// settings of the user's own Cortex.
func program(t *testing.T, pidFile, then string, log ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cortex")
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\necho $$ > %s\n[ -z \"$CORTEX_LLM\" ] || exit 1\n", pidFile)
	for _, line := range log {
		fmt.Fprintf(&b, "echo '%s' >&2\n", line)
	}
	b.WriteString(then + "\n")
	if err := os.WriteFile(path, []byte(b.String()), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// gone checks that the process whose pid is in a file has ended.
func gone(t *testing.T, pidFile string) {
	t.Helper()
	var pid int
	b, err := os.ReadFile(pidFile)
	if err == nil {
		_, err = fmt.Sscan(string(b), &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestServeIsReadyWhenItSaysSo(t *testing.T) {
	var asked atomic.Int64
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer health.Close()
	t.Setenv("CORTEX_LLM", "expensive")
	pid := filepath.Join(t.TempDir(), "pid")
	binary := program(t, pid, "exec sleep 1000",
		"not json", `{"msg":"cortex is ready","agents":7}`, fmt.Sprintf(`{"msg":"health endpoint","url":%q}`, health.URL))
	p, err := startServe(t.Context(), binary, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 3 || p.agents != 7 || p.ready <= 0 {
		t.Errorf("ready after %d questions and %v with %d agents", asked.Load(), p.ready, p.agents)
	}
	if want := []string{"cortex", "serve", "--data"}; strings.Join(p.cmd.Args[:3], " ") != strings.Join(want, " ") {
		t.Errorf("started %q, want %q", p.cmd.Args, want)
	}
	p.kill()
	gone(t, pid)
}

func TestServeThatEndsSaysWhy(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	_, err := startServe(t.Context(), program(t, pid, "exit 1", "first", "the port is in use"), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "the port is in use") {
		t.Errorf("startServe = %v, want the last line", err)
	}
	gone(t, pid)
}

// TestInterruptedServeEnds interrupts the wait for a server: the server ends.
func TestInterruptedServeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		http.Error(w, "never", http.StatusServiceUnavailable)
	}))
	defer health.Close()
	pid := filepath.Join(t.TempDir(), "pid")
	_, err := startServe(ctx, program(t, pid, "exec sleep 1000", fmt.Sprintf(`{"msg":"health endpoint","url":%q}`, health.URL)), t.TempDir())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("startServe = %v, want that it was interrupted", err)
	}
	gone(t, pid)
}
