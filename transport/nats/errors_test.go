package nats

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestBrokenConnectionIsUnavailable has a connection end while something is written to it, which the client says in the system's words.
func TestBrokenConnectionIsUnavailable(t *testing.T) {
	err := translate(fmt.Errorf("publish: %w", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}))
	if !errors.Is(err, transport.ErrUnavailable) || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("translate = %v, want ErrUnavailable with its cause", err)
	}
}
