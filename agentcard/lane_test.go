package agentcard

import (
	"encoding/json"
	"testing"
	"time"
)

// TestChecksDoNotWaitForEachOther has a check by a schema that many share not end: others by the same one are done meanwhile.
func TestChecksDoNotWaitForEachOther(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"type": "object", "required": ["lane"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxChecks - 1 {
		s.lane() // of a check that goes on
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
