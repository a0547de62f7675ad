package view_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestIndent indents JSON as encoding/json does, and cuts it anywhere.
func TestIndent(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `7`, `"a\"[{,:\\"`, `[{}]`, `[[],[[]],{}]`, `{"a":{"b":[1,-2.5e3,null,true],"c":{}},"d":"ü, \u00fc: [x]"}`, " { \"a\" : [ 1 , 2 ] ,\n\"b\":\t[ ] } ",
	} {
		for level := range 2 {
			var want bytes.Buffer
			if err := json.Indent(&want, []byte(strings.TrimSpace(text)), strings.Repeat("  ", level), "  "); err != nil {
				t.Fatal(err)
			}
			for most := range want.Len() + 2 {
				got, more := view.Indent([]byte(text), level, most)
				if n := min(most, want.Len()); string(got) != want.String()[:n] || more != want.Len()-n {
					t.Errorf("%s from level %d in %d bytes is, with %d more,\n%s\nwant %d more of\n%s", text, level, most, more, got, want.Len()-n, want.String())
				}
			}
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDeeplyNested shows a payload that would be some 190 MB large when it is indented.
func TestDeeplyNested(t *testing.T) {
	const depth = 4000
	var deep any = make([]int, 20_000)
	for range depth {
		deep = []any{deep}
	}
	m := &a2a.Message{ID: "m", Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hi")}, Metadata: map[string]any{"deep": deep}}
	var shown string
	var out bytes.Buffer
	if n := allocated(func() { shown = view.PayloadText(m) }); n > 8<<20 || !strings.Contains(shown, " bytes more: --json") || len(shown) > 80<<10 {
		t.Errorf("%d bytes are allocated for %d that are shown of a payload", n, len(shown))
	}
	err := error(nil)
	if n := allocated(func() { err = view.WriteJSON(&out, &transport.Event{ID: "e", Payload: m}) }); n > 40<<20 || err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%d bytes are allocated for %d of JSON, %v", n, out.Len(), err)
	}
}
