package a2a

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// TestEventsAreWeighedOnce reads streams of events that are nearly too heavy, and one that is: each event counts, once.
func TestEventsAreWeighedOnce(t *testing.T) {
	event := "data: [" + strings.Repeat("{},", maxHeavy*6/10/nesting.Weight([]byte("{},"))) + "{}]\n\n"
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"one": {event, nil}, "many": {strings.Repeat(event, 4), nil}, "too heavy": {strings.TrimSuffix(event, "\n") + event, errHeavy},
	} {
		for how, from := range map[string]io.Reader{"at once": strings.NewReader(test.text), "in halves": iotest.HalfReader(strings.NewReader(test.text))} {
			e := &events{bounded: bounded{ReadCloser: io.NopCloser(from), most: maxStream, pieces: true}, heard: func() {}}
			if n, err := io.Copy(io.Discard, e); !errors.Is(err, test.want) || err == nil && n != int64(len(test.text)) {
				t.Errorf("%s, %s: %d of %d bytes, %v, want %v", name, how, n, len(test.text), err, test.want)
			}
		}
	}
}
