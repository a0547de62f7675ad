package openai

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// held is a body that sends text after its start again and again, so many bytes, and then waits.
type held struct {
	start string
	text  string
	left  int
	waits chan<- struct{}
	goOn  <-chan struct{}
}

func (h *held) Read(p []byte) (int, error) {
	if h.waits == nil {
		return 0, io.EOF
	}
	if h.left <= 0 {
		h.waits <- struct{}{}
		<-h.goOn
		h.waits = nil
		return 0, io.EOF
	}
	n := copy(p, h.start)
	if h.start = h.start[n:]; n == 0 {
		n = copy(p, h.text)
	}
	h.left -= n
	return n, nil
}

// TestManyLongPieces has an endpoint answer many calls at the same time with long lines, long events, and long bodies: the answers for which no memory is
// left end with words.
func TestManyLongPieces(t *testing.T) {
	zeros := strings.Repeat("0", 4<<10)
	for name, sent := range map[string]held{"a line": {text: zeros}, "an event": {text: "data: " + zeros + "\n"}, "a body": {start: "{\n\"a\":\"", text: zeros}} {
		t.Run(name, func(t *testing.T) {
			const calls, length = 24, 7 << 20
			waits, ended, goOn := make(chan struct{}), make(chan error), make(chan struct{})
			for range calls {
				go func() {
					r := newRepair(io.NopCloser(&held{sent.start, sent.text, length, waits, goOn}), new(chatFormat), http.Header{}, "")
					_, err := drained(r)
					_ = r.Close()
					ended <- err
				}()
			}
			waiting := 0
			for range calls {
				select {
				case <-waits:
					waiting++
				case err := <-ended:
					if !errors.Is(err, long.ErrTooMany) || !errors.Is(err, llm.ErrUnavailable) {
						t.Errorf("error %v, want %v", err, long.ErrTooMany)
					}
				}
			}
			if waiting == 0 || waiting == calls {
				t.Errorf("%d of %d answers are held", waiting, calls)
			}
			close(goOn)
			for range waiting {
				<-ended
			}
		})
	}
}
