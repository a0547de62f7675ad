package nats

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestBrokenConnectionIsUnavailable ends a connection during a write, for which the client returns the system's error.
func TestBrokenConnectionIsUnavailable(t *testing.T) {
	err := translate(fmt.Errorf("publish: %w", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}))
	if !errors.Is(err, transport.ErrUnavailable) || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("translate = %v, want ErrUnavailable with its cause", err)
	}
}
