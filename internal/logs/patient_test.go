package logs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatient logs to a pipe of which nobody reads for a while: who logs is held up once, for a second, lines up to the bound come later, and the number
// of the others is told.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := NewPatient(w)
		log := slog.New(slog.NewTextHandler(p, nil))
		began := time.Now()
		const lines = 10_000
		for i := range lines {
			log.Info("work goes on", "n", i, "text", strings.Repeat("x", 1000))
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it took %v, want %v", took, patience)
		}
		if got := strings.Join(p.Trouble(), ""); !strings.Contains(got, "the log takes nothing since") {
			t.Errorf("the trouble is %q", got)
		}
		if p.size > maxWaiting {
			t.Errorf("%d bytes wait", p.size)
		}
		lost := p.lost
		out := make(chan string)
		go func() {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			out <- string(b)
		}()
		synctest.Wait()
		if p.Trouble() != nil {
			t.Errorf("the trouble is still %q", p.Trouble())
		}
		log.Info("the last")
		w.Close()
		text := <-out
		if n := strings.Count(text, "work goes on"); n != lines-lost || n < 900 {
			t.Errorf("%d lines are there and %d were lost, of %d", n, lost, lines)
		}
		if !strings.Contains(text, fmt.Sprintf("\n%d lines are lost here", lost)) || !strings.HasSuffix(text, "msg=\"the last\"\n") {
			t.Errorf("the log ends with %q", text[len(text)-300:])
		}
	})
}

// TestPatientIsSynchronous checks that a line was written, or has failed, when its writer goes on.
func TestPatientIsSynchronous(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		if _, err := fmt.Fprintln(NewPatient(&b), i); err != nil || strings.Count(b.String(), "\n") != i+1 {
			t.Fatalf("after %d lines there are %q: %v", i+1, b.String(), err)
		}
	}
	r, w := io.Pipe()
	r.Close()
	if _, err := NewPatient(w).Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write = %v", err)
	}
}
