package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/internal/view"
)

// TestJSONIsPlain checks that JSON output decodes to the same texts and contains no terminal sequences.
func TestJSONIsPlain(t *testing.T) {
	said := []string{"\u009b31m \x7f \x1b[0m", "a\u202eb\u200d", "\U000e0041", "schön 漢字 \xff", ""}
	var out bytes.Buffer
	if err := view.NewJSON(&out).Encode(said); err != nil {
		t.Fatal(err)
	}
	const want = `["\u009b31m \u007f \u001b[0m","a\u202eb\u200d","\udb40\udc41","schön 漢字 \ufffd",""]` + "\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("JSON differs (-want +got):\n%s", d)
	}
	var read []string
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	said[3] = "schön 漢字 \ufffd"
	if d := cmp.Diff(said, read); d != "" {
		t.Errorf("what is read differs (-want +got):\n%s", d)
	}
}
