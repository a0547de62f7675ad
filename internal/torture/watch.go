package torture

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// watcher reads the clients' files while they are written.
type watcher struct {
	files []string
	read  []int64              // how much of each was read
	open  map[string]time.Time // accepted and unanswered messages, since when
}

func newWatcher(folder string, plan *Plan) *watcher {
	w := &watcher{open: map[string]time.Time{}, read: make([]int64, plan.Clients)}
	for n := range plan.Clients {
		w.files = append(w.files, journalFile(folder, n))
	}
	return w
}

// calm waits until what was accepted before a time is answered, or calmTime has passed, which the check then reports.
func (w *watcher) calm(ctx context.Context, before time.Time) error {
	for end := time.Now().Add(calmTime); time.Now().Before(end); {
		if err := w.look(); err != nil {
			return err
		}
		waiting := false
		for _, at := range w.open {
			waiting = waiting || at.Before(before)
		}
		if !waiting {
			return nil
		}
		if err := rest.For(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// look reads new lines of the files.
func (w *watcher) look() error {
	for i, path := range w.files {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.NewSectionReader(f, w.read[i], math.MaxInt64-w.read[i]))
		f.Close()
		if err != nil {
			return err
		}
		records, size, err := parseRecords(b) // a truncated line is read the next time
		if err != nil {
			return err
		}
		w.read[i] += int64(size)
		for _, r := range records {
			switch r.Op {
			case opAccepted:
				w.open[r.ID] = r.Time
			case opAnswer:
				delete(w.open, r.ID)
			}
		}
	}
	return nil
}

// spyEvery is the polling interval of a spy.
const spyEvery = 250 * time.Millisecond

// tolerance is how long two replicas may both claim a partition: a replica that was stopped takes a moment to notice that it was replaced.
const tolerance = 5 * time.Second

// spy polls the replicas for their partitions.
type spy struct {
	ready []string
	since map[string]time.Time // when two began to claim the same
	found []string
}

func newSpy(ready []string) *spy { return &spy{ready: ready, since: map[string]time.Time{}} }

func (s *spy) work(ctx context.Context) {
	if len(s.ready) < 2 {
		return
	}
	for rest.For(ctx, spyEvery) == nil {
		owned := make([][]int, len(s.ready))
		for i, url := range s.ready {
			if body, ok := health(ctx, url); ok {
				owned[i] = partitions(body)
			}
		}
		s.compare(owned, time.Now())
	}
}

// compare looks for two replicas that have claimed the same partition for longer than tolerance.
func (s *spy) compare(owned [][]int, now time.Time) {
	for i := range owned {
		for j := range i {
			pair := strconv.Itoa(j) + " and " + strconv.Itoa(i)
			if !slices.ContainsFunc(owned[i], func(p int) bool { return slices.Contains(owned[j], p) }) {
				delete(s.since, pair)
				continue
			}
			if _, ok := s.since[pair]; !ok {
				s.since[pair] = now
			}
			if now.Sub(s.since[pair]) > tolerance {
				s.found = append(s.found, "replicas "+pair+" own the same partitions since "+s.since[pair].UTC().Format("15:04:05.000"))
				s.since[pair] = now
			}
		}
	}
}

var ownsLine = regexp.MustCompile(`(?m)^owns \d+ of \d+ partitions: (.*)$`)

// partitions parses the partitions in the answer of a health endpoint.
func partitions(body string) []int {
	m := ownsLine.FindStringSubmatch(body)
	if m == nil {
		return nil
	}
	var owned []int
	for part := range strings.SplitSeq(m[1], ", ") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		for n := a; n <= b && n-a < 1000 && err1 == nil && err2 == nil; n++ {
			owned = append(owned, n)
		}
	}
	return owned
}
