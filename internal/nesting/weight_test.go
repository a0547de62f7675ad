package nesting_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// TestWeight checks that the weight of a text is about what it takes.
func TestWeight(t *testing.T) {
	for name, of := range map[string]struct {
		one  string
		most float64 // how often the memory the weight may be
	}{
		"objects": {"{},", 2}, "lists": {"[],", 3}, "nested": {"[[[[]]]],", 3}, "rows": {`{"name":"abc","value":12.5},`, 2}, "names": {`{"a":1},`, 2}, "numbers": {"1000000,", 2},
		"words": {`"a",`, 2}, "quoted": {`"{[,:\"{",`, 3}, "nulls": {"null,", 2},
	} {
		text := []byte("[" + strings.Repeat(of.one, 50_000) + "1]")
		w := float64(nesting.Weight(text))
		var v any
		is := taken(func() {
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
		runtime.KeepAlive(v)
		if w < is/2 || w > is*of.most+float64(len(text)) {
			t.Errorf("%s: a text of %d bytes takes %.0f, and its weight is %.0f", name, len(text), is, w)
		}
	}
	for _, text := range []string{`{"a\\\"":[{},{"":1}]}`, "[1,2,\"{\"]"} {
		var s nesting.Scale
		for i := range len(text) {
			s.Write([]byte(text[i : i+1]))
		}
		if want := nesting.Weight([]byte(text)); s.Weight != want {
			t.Errorf("%s weighs %d in pieces, and %d as a whole", text, s.Weight, want)
		}
	}
	if open, plain := nesting.Weight([]byte("\"\n[{}]")), nesting.Weight([]byte("[{}]")); open != plain+2 {
		t.Errorf("behind an open quote, a text of %d weighs %d", plain, open)
	}
	if got := nesting.Weight([]byte(`"` + strings.Repeat("{},:[", 1000) + `"`)); got != 5002 {
		t.Errorf("the weight of a string of 5000 bytes is %d", got)
	}
}

// taken returns how much memory is in use behind f that was not before it, in bytes.
func taken(f func()) float64 {
	var before, after runtime.MemStats
	for range 2 { // what a pool gives up goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}
