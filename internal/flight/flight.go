// Package flight keeps a trace of what the program did in the last seconds, and writes it to a file when a turn took far longer than others do. Such a
// trace shows what goroutines waited for: locks, the network, the disk, the processor, the garbage collector.
package flight

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

const (
	// factor is how many times as long as the 99th percentile a turn takes that is written about.
	factor = 10
	// least is the shortest such turn.
	least = time.Second
	// sample is how many of the latest turns the percentile is of, and enough how many there have to be.
	sample = 1024
	enough = 100
	// every is how many turns share a computed percentile.
	every = 32
	// pause is the least time between two files.
	pause = time.Minute

	// keepFor is how much of the past is kept at least, unless it has more than keepBytes.
	keepFor   = 10 * time.Second
	keepBytes = 8 << 20

	// Bounds of the folder.
	maxFiles = 5
	maxBytes = 64 << 20

	prefix, suffix = "slow-turn-", ".trace"
)

// Recorder is an observer of an orchestrator (see package cortex) that notes how long turns take. It is safe for concurrent use.
type Recorder struct {
	dir string
	log *slog.Logger
	now func() time.Time
	due chan slow // receives a slow turn; holds one

	mu     sync.Mutex
	latest [sample]time.Duration // a ring
	n      int                   // turns so far
	limit  time.Duration         // a longer turn is slow; 0: unknown yet
	next   time.Time             // no file before
}

// slow is a turn that was slow.
type slow struct {
	contextID, turn string
	took, limit     time.Duration
}

// New returns a Recorder that writes into a folder, which it makes when it needs it. It records while Run runs.
func New(dir string, log *slog.Logger) *Recorder {
	return &Recorder{dir: dir, log: log, now: time.Now, due: make(chan slow, 1)}
}

// Appended implements cortex.Observer.
func (r *Recorder) Appended(conv *conversation.Conversation, entry *conversation.Entry) {
	for _, turn := range conv.Turns {
		if turn.AnswerSeq != entry.Seq {
			continue
		}
		took := turn.Answered.Sub(turn.Began)
		if limit := r.slow(took); limit > 0 {
			trace.Log(context.Background(), "slow turn", conv.ContextID+" "+turn.ID) // so that it is found in the trace
			select {
			case r.due <- slow{conv.ContextID, turn.ID, took, limit}:
			default:
			}
		}
	}
}

// slow notes how long a turn took. It returns the limit that the turn has passed if a file is to be written about it, or 0.
func (r *Recorder) slow(took time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.limit
	r.latest[r.n%sample] = took
	if r.n++; r.n >= enough && r.n%every == 0 {
		all := slices.Clone(r.latest[:min(r.n, sample)])
		slices.Sort(all)
		r.limit = max(factor*all[len(all)*99/100], least)
	}
	now := r.now()
	if limit == 0 || took <= limit || now.Before(r.next) {
		return 0
	}
	r.next = now.Add(pause)
	return limit
}

// Run records until ctx ends, and writes the files. It returns at once, after a line in the log, when another recorder runs in the program.
func (r *Recorder) Run(ctx context.Context) {
	flight := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: keepFor, MaxBytes: keepBytes})
	if err := flight.Start(); err != nil {
		r.log.Warn("slow turns are not recorded", "err", err)
		return
	}
	defer flight.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case turn := <-r.due:
			var b bytes.Buffer
			_, err := flight.WriteTo(&b)
			file := ""
			if err == nil {
				file, err = r.write(b.Bytes())
			}
			if err != nil {
				r.log.Warn("a turn was slow, and what the program did then cannot be written down", "context_id", turn.contextID, "turn", turn.turn, "err", err)
				continue
			}
			r.log.Warn("a turn was slow: what the program did before its end is written down", "context_id", turn.contextID, "turn", turn.turn,
				"took", turn.took.Round(time.Millisecond), "slow_from", turn.limit.Round(time.Millisecond), "file", file, "read", "go tool trace "+file)
		}
	}
}

// write writes a file, and removes old ones.
func (r *Recorder) write(b []byte) (file string, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(r.dir, prefix+r.now().UTC().Format("20060102T150405.000Z")+suffix)
	if err := os.WriteFile(file, b, 0o600); err != nil {
		os.Remove(file) // a half
		return "", err
	}
	return file, r.prune()
}

// prune removes the oldest files until the rest is within bounds.
func (r *Recorder) prune() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	type old struct {
		name string
		size int64
	}
	var all []old
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, old{e.Name(), info.Size()})
		}
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Compare(b.name, a.name) }) // the newest first: names have the time
	var bytes int64
	for i, f := range all {
		if bytes += f.size; i == 0 || i < maxFiles && bytes <= maxBytes {
			continue
		}
		if err := os.Remove(filepath.Join(r.dir, f.name)); err != nil {
			return fmt.Errorf("remove an old file: %w", err)
		}
	}
	return nil
}
