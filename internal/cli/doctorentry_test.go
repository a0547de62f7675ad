package cli

import (
	"encoding/json"
	"testing"
)

// TestRemovedEntry reads back what a repair writes of a removed entry: every byte of it.
func TestRemovedEntry(t *testing.T) {
	for _, data := range []string{`{"text":"ä"}`, "{\"text\":\"\xe1\"}", ""} {
		line, err := json.Marshal(removedEntry(7, []byte(data)))
		if err != nil {
			t.Fatal(err)
		}
		var got removed
		if err := json.Unmarshal(line, &got); err != nil || got.Version != 7 || got.Entry+string(got.Base64) != data {
			t.Errorf("of %q, %s is written, which reads %+v, %v", data, line, got, err)
		}
	}
}
