//go:build unix

package tests

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestSignalsAreHeardWhileConnecting checks that a command ends on a signal while it is connected to a server that sends nothing.
func TestSignalsAreHeardWhileConnecting(t *testing.T) {
	hearHangup(t)
	cortex := cortexPath(t)
	for name, sig := range map[string]os.Signal{"interrupt": os.Interrupt, "terminate": syscall.SIGTERM, "hang up": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			cmd := exec.CommandContext(t.Context(), cortex, "agents", "--data", t.TempDir(), "--nats", "nats://"+l.Addr().String())
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			cmd.Wait() //nolint:errcheck // the status is what counts
			if got := cmd.ProcessState.ExitCode(); got != 130 || said.Len() > 0 {
				t.Errorf("exit status %d and %q, want 130 and nothing", got, &said)
			}
		})
	}
}
