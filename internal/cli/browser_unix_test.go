//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestOpenBrowser checks that the system's program for addresses gets the address as one argument.
func TestOpenBrowser(t *testing.T) {
	dir := t.TempDir()
	shown := filepath.Join(dir, "shown")
	for _, name := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\nprintf '%s' \"$1\" >'" + shown + ".new' && /bin/mv '" + shown + ".new' '" + shown + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("WAYLAND_DISPLAY", "")
	t.Setenv("DISPLAY", ":0")
	const address = "https://example.com/authorize?a=$(id)&b=' c"
	openBrowser(address)
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		b, err := os.ReadFile(shown)
		if err == nil {
			if string(b) != address {
				t.Errorf("opened %q, want %q", b, address)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing was opened: %v", err)
		}
	}
}
