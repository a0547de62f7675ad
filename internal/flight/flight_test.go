package flight

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// lines is a log that hands over its lines.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- strings.TrimSpace(string(b))
	return len(b), nil
}

// turns has turns end that took so long each.
func turns(r *Recorder, n int, took time.Duration) {
	for range n {
		began := time.Unix(1, 0)
		r.Appended(&conversation.Conversation{ContextID: "c", Turns: []*conversation.Turn{
			{ID: "open", Began: began}, {ID: "t", AnswerSeq: 7, Began: began, Answered: began.Add(took)},
		}}, &conversation.Entry{Seq: 7})
	}
}

// record runs r until the test ends.
func record(t *testing.T, r *Recorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestSlowTurn has a turn take more than ten times what others do.
func TestSlowTurn(t *testing.T) {
	out := make(lines, 10)
	dir := filepath.Join(t.TempDir(), "flight")
	r := New(dir, slog.New(slog.NewTextHandler(out, nil)))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.now = func() time.Time { return now }

	turns(r, 1, time.Hour) // nothing is known of others
	turns(r, sample, 200*time.Millisecond)
	turns(r, 1, 2*time.Second) // ten times as long
	if len(r.due) != 0 {
		t.Fatal("a turn counts as slow that is not")
	}
	turns(r, 1, 2*time.Second+1)
	if len(r.due) != 1 {
		t.Fatal("a turn that took more than ten times as long as others does not count as slow")
	}
	record(t, r)
	line := <-out
	file := filepath.Join(dir, "slow-turn-20260102T030405.000Z.trace")
	for _, want := range []string{"level=WARN", "context_id=c", "turn=t", "took=2s", "slow_from=2s", "file=" + file, "go tool trace " + file} {
		if !strings.Contains(line, want) {
			t.Errorf("the log says %s, want %s in it", line, want)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(b, []byte("go 1.")) {
		t.Errorf("the file begins with %.20q, %v, want a trace", b, err)
	}
	if !bytes.Contains(b, []byte("slow turn")) && !bytes.Contains(b, []byte("TestSlowTurn")) {
		t.Error("the trace has nothing of this test")
	}

	if r.slow(time.Hour) > 0 {
		t.Error("a slow turn a moment after another one has a file of its own")
	}
	now = now.Add(pause)
	turns(r, 1, time.Hour)
	if line := <-out; !strings.Contains(line, "slow-turn-20260102T030505.000Z.trace") {
		t.Errorf("the log says %s, want the second file", line)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%d files, want 2: another slow turn within a minute has none", len(files))
	}
}

// TestShort checks that short turns are never slow.
func TestShort(t *testing.T) {
	r := New(t.TempDir(), slog.New(slog.DiscardHandler))
	turns(r, sample, time.Millisecond)
	turns(r, 1, least)
	if len(r.due) != 0 {
		t.Error("a turn of a second counts as slow")
	}
}

// TestPrune bounds the files in number and size.
func TestPrune(t *testing.T) {
	for name, tt := range map[string]struct {
		sizes []int64 // from the oldest
		kept  int
	}{
		"many":      {sizes: []int64{1, 1, 1, 1, 1, 1, 1, 1}, kept: maxFiles},
		"few":       {sizes: []int64{1, 1}, kept: 2},
		"large":     {sizes: []int64{1, maxBytes / 2, maxBytes / 2, 1}, kept: 2},
		"too large": {sizes: []int64{1, maxBytes + 1}, kept: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := New(dir, slog.New(slog.DiscardHandler))
			other := []string{"notes.txt", "slow-turn-of-mine", "x.trace"}
			for _, name := range other {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			r.now = func() time.Time { at = at.Add(time.Second); return at }
			for i, size := range tt.sizes {
				file, err := r.write(nil)
				if err != nil {
					t.Fatal(err)
				}
				if files, err := os.ReadDir(dir); err != nil || len(files) > maxFiles+len(other) {
					t.Fatalf("%d files after writing one, %v", len(files), err)
				}
				if err := os.Truncate(file, size); err != nil {
					t.Fatal(err)
				}
				if i >= len(tt.sizes)-tt.kept {
					want = append(want, filepath.Base(file))
				}
			}
			if err := r.prune(); err != nil {
				t.Fatal(err)
			}
			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range files {
				if !slices.Contains(other, f.Name()) {
					got = append(got, f.Name())
				}
			}
			if !slices.Equal(got, want) || len(files) != len(want)+len(other) {
				t.Errorf("%v are left, %d files in all, want %v and the files of others", got, len(files), want)
			}
		})
	}
}

// TestOnlyOne checks that a recorder says so when it does not record, since another one does.
func TestOnlyOne(t *testing.T) {
	other := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	out := make(lines, 1)
	New(t.TempDir(), slog.New(slog.NewTextHandler(out, nil))).Run(t.Context())
	if line := <-out; !strings.Contains(line, "slow turns are not recorded") {
		t.Errorf("the log says %s", line)
	}
}
