package memory

import (
	"errors"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestFilesFull checks a world at its limit of files: the error is not ErrUnavailable, and lasts until some files are removed.
func TestFilesFull(t *testing.T) {
	b := New(nil)
	defer b.Close()
	o := transport.Object{ContextID: "c", From: "user", ID: "1"}
	put := func(n int) error { return b.PutChunk(t.Context(), o, n, make([]byte, 100)) }
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	b.w.mu.Lock()
	b.w.fileBytes += maxFileBytes - 150
	b.w.mu.Unlock()
	if err := put(1); !errors.Is(err, transport.ErrFilesFull) || errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("one more than there may be: %v, want ErrFilesFull", err)
	}
	if err := b.RemoveObject(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := put(1); err != nil {
		t.Errorf("when some are removed: %v, want nil", err)
	}
}
