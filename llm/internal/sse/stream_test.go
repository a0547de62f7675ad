package sse

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/llm/internal/long"
)

// none are events that nobody handles.
type none struct{}

func (none) Event(string, []byte) ([]byte, error) { return nil, nil }
func (none) Page([]byte) error                    { return errors.New("a page") }

// zeros is a body of so many zeros without the end of a line, which then waits.
type zeros struct {
	left  int
	waits chan<- struct{}
	goOn  <-chan struct{}
}

func (z *zeros) Read(p []byte) (int, error) {
	if z.waits == nil {
		return 0, io.EOF
	}
	n := min(len(p), z.left)
	if z.left -= n; n == 0 {
		z.waits <- struct{}{}
		<-z.goOn
		z.waits = nil
		return 0, io.EOF
	}
	clear(p[:n])
	return n, nil
}

// TestManyLongLines has many endpoints send long lines at the same time: the streams for which no memory is left end with words, and later ones go on.
func TestManyLongLines(t *testing.T) {
	const streams, length = 60, 3 << 20
	waits, ended, goOn := make(chan struct{}), make(chan error), make(chan struct{})
	for range streams {
		s := NewStream(io.NopCloser(&zeros{left: length, waits: waits, goOn: goOn}), none{})
		go func() {
			_, _ = io.ReadAll(s)
			err := s.Broken()
			_ = s.Close()
			ended <- err.Err
		}()
	}
	waiting := 0
	for n := 0; n < streams; n++ {
		select {
		case <-waits:
			waiting++
		case err := <-ended:
			if !errors.Is(err, long.ErrTooMany) {
				t.Errorf("error %v, want %v", err, long.ErrTooMany)
			}
		}
	}
	if held := waiting * length; waiting == 0 || held > 64<<20 {
		t.Errorf("%d streams hold %d bytes", waiting, held)
	}
	close(goOn)
	for range waiting {
		<-ended
	}
	s := NewStream(io.NopCloser(&zeros{left: length, waits: make(chan struct{}, 1), goOn: goOn}), none{})
	_, _ = io.ReadAll(s)
	if err := s.Broken(); err != nil && errors.Is(err.Err, long.ErrTooMany) {
		t.Errorf("a later stream: %v", err)
	}
	_ = s.Close()
}

// TestHeavyEvent has an endpoint send an event that is allowed by its length, and would take a hundred times that when an SDK decodes it.
func TestHeavyEvent(t *testing.T) {
	body := `data: {"content":[` + strings.Repeat("{},", 300_000) + "{}]}\n\n"
	s := NewStream(io.NopCloser(strings.NewReader(body)), none{})
	if b, err := io.ReadAll(s); len(b) > 0 || err != nil || !errors.Is(s.Broken().Err, ErrTooBig) {
		t.Errorf("the SDK gets %d bytes, %v, and then %v", len(b), err, s.Broken())
	}
}
