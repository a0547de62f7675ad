package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/transport"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDeepEntry shows an entry that would be some 190 MB large when it is indented: as a part of a page, of which it says how much is cut off, and as JSON.
func TestDeepEntry(t *testing.T) {
	const depth = 4000
	text := strings.Repeat("[", depth) + "7" + strings.Repeat(",7", 20_000) + strings.Repeat("]", depth)
	var deep any
	if err := json.Unmarshal([]byte(text), &deep); err != nil {
		t.Fatal(err)
	}
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hi"))
	m.Metadata = map[string]any{"deep": deep}
	e := &conversation.Entry{Seq: 1, Turn: "t", Cause: &transport.Event{From: "user", Payload: m}}
	var raw rawEntry
	if n := allocated(func() { raw = rawOf(e) }); n > 40<<20 || !strings.HasSuffix(raw.JSON, " more bytes are cut off]") || len(raw.JSON) > maxRawText+100 {
		t.Errorf("%d bytes are allocated for %d of an entry", n, len(raw.JSON))
	}
	if n := allocated(func() { text = pretty([]byte(text)) }); n > 40<<20 || !strings.HasSuffix(text, " more bytes are cut off]") {
		t.Errorf("%d bytes are allocated for %d of a schema", n, len(text))
	}
	for name, answer := range map[string]func(http.ResponseWriter) error{
		"value": func(w http.ResponseWriter) error { return answerJSON(w, e) },
		"list": func(w http.ResponseWriter) error {
			return answerList(w, func(yield func(*conversation.Entry, error) bool) { yield(e, nil) })
		},
	} {
		w, err := httptest.NewRecorder(), error(nil)
		if n := allocated(func() { err = answer(w) }); n > 40<<20 || err != nil || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d bytes are allocated for a %s of %d bytes, %v", n, name, w.Body.Len(), err)
		}
	}
	if raw := rawOf(&conversation.Entry{Seq: 1, Turn: "t"}); !strings.Contains(raw.JSON, "\n  \"turn\": \"t\"") {
		t.Errorf("an entry is\n%s", raw.JSON)
	}
}
