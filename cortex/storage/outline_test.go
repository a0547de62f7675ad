package storage_test

import (
	"encoding/json"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// The outline of an older version, which did not count the turns, is made anew.
func TestWhole(t *testing.T) {
	for text, want := range map[string]bool{
		`{"version":4,"entries":4,"title":"hello","owner":"user","turns":2}`: true,
		`{"version":4,"entries":4,"title":"hello","owner":"user"}`:           false,
		`{"version":4,"entries":4,"title":"hello","turns":2}`:                false,
	} {
		o := new(storage.Outline)
		if err := json.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		if got := o.Whole(); got != want {
			t.Errorf("Whole of %s = %t, want %t", text, got, want)
		}
	}
}
