package agentcard

import (
	"encoding/json"
	"testing"
	"time"
)

// TestChecksDoNotWaitForEachOther checks that an endless validation with a shared schema does not block others with it.
func TestChecksDoNotWaitForEachOther(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"type": "object", "required": ["lane"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range max(1, maxChecks-1) {
		s.lane() // of an endless validation
		done := make(chan error, 2)
		go func() {
			done <- s.Validate(json.RawMessage(`{"lane": 1}`))
			done <- s.Validate(json.RawMessage(`{}`))
		}()
		for _, fits := range []bool{true, false} {
			select {
			case err := <-done:
				if (err == nil) != fits {
					t.Errorf("%d checks go on: %v", i+1, err)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("a check waits for %d others", i+1)
			}
		}
	}
}
