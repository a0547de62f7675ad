package cli

import (
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// The amount of a task or a result counts its data.
func TestBytesText(t *testing.T) {
	data := a2a.NewDataPart(map[string]any{"sum": 5})
	for want, parts := range map[string]a2a.ContentParts{
		"0 bytes": nil, "1 byte": {a2a.NewTextPart("x")}, "9 bytes": {nil, data}, "12 bytes": {a2a.NewTextPart("and"), data},
	} {
		if got := bytesText(parts); got != want {
			t.Errorf("bytesText(%v) = %q, want %q", parts, got, want)
		}
	}
}
