package nats

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestStreamErrorNamesTheDisk checks that a server that cannot write the files of a new stream counts as unavailable, not as incompatible.
func TestStreamErrorNamesTheDisk(t *testing.T) {
	err := streamError("S", &jetstream.APIError{Code: 500, ErrorCode: 10049, Description: "error creating store for stream"})
	if !errors.Is(err, transport.ErrUnavailable) || errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), "disk") {
		t.Errorf("streamError() = %v", err)
	}
	err = streamError("S", &jetstream.APIError{Code: 400, ErrorCode: 10058, Description: "stream name already in use with a different configuration"})
	if !errors.Is(err, transport.ErrIncompatible) {
		t.Errorf("streamError() = %v", err)
	}
}

// TestStreamThatIsNotThereYet checks that a cluster that does not know a stream during an election counts as unavailable, not as incompatible.
func TestStreamThatIsNotThereYet(t *testing.T) {
	err := streamError("S", &jetstream.APIError{Code: 404, ErrorCode: jetstream.JSErrCodeStreamNotFound, Description: "stream not found"})
	if !errors.Is(err, transport.ErrUnavailable) || errors.Is(err, transport.ErrIncompatible) {
		t.Errorf("streamError() = %v, want one that is gone when it is asked again", err)
	}
}
