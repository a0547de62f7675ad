package cli

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// What is written in a window of time of lines that say the same about what somebody did. Whoever reaches the server causes as many as they like.
const (
	paceWindow = 10 * time.Second
	paceEach   = 10  // about one agent, sender or subject
	paceAll    = 200 // about all of them together
	maxSource  = 128 // bytes of a name
)

// pacedLog is a handler that leaves out what is too much, and says how much that was with the next line of the log after the window. Errors, and
// lines that are about nobody, are always written.
type pacedLog struct {
	slog.Handler
	pace *logPace
}

func paced(h slog.Handler) pacedLog {
	return pacedLog{h, &logPace{windows: map[string]*paceCount{}}}
}

// Handle implements [slog.Handler].
func (p pacedLog) Handle(ctx context.Context, r slog.Record) error {
	for _, left := range p.pace.over(r.Time) {
		if err := p.Handler.Handle(ctx, left); err != nil {
			return err
		}
	}
	if source := sourceOf(r); source != "" && r.Level < slog.LevelError && !p.pace.take(r, source) {
		return nil
	}
	return p.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (p pacedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return pacedLog{p.Handler.WithAttrs(attrs), p.pace}
}

// WithGroup implements [slog.Handler].
func (p pacedLog) WithGroup(name string) slog.Handler {
	return pacedLog{p.Handler.WithGroup(name), p.pace}
}

// sourceOf returns who made r be written, "" if nobody outside did. A line of a conversation is about its work; only who sent something to it
// counts there.
func sourceOf(r slog.Record) string {
	var from, about string
	work := false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "from":
			from = a.Value.String()
		case "agent_id", "agent", "subject":
			about = a.Value.String()
		case "context_id":
			work = true
		}
		return true
	})
	if work {
		about = ""
	}
	source := cmp.Or(from, about)
	return source[:min(len(source), maxSource)]
}

// logPace counts lines, by what they say.
type logPace struct {
	mu      sync.Mutex
	windows map[string]*paceCount // by the message, which is one of the program's
	next    time.Time             // when the first window is over
}

// paceCount is what was written, or not, in a window.
type paceCount struct {
	level slog.Level
	since time.Time
	lines int
	left  int
	by    map[string]int // all lines of those who have one that was written
}

// take reports whether r is to be written.
func (p *logPace) take(r slog.Record, source string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.windows[r.Message]
	if c == nil {
		c = &paceCount{level: r.Level, since: r.Time, by: map[string]int{}}
		p.windows[r.Message] = c
		if end := r.Time.Add(paceWindow); p.next.IsZero() || end.Before(p.next) {
			p.next = end
		}
	}
	n, known := c.by[source]
	fits := n < paceEach && c.lines < paceAll
	if known || fits {
		c.by[source]++
	}
	if fits {
		c.lines++
	} else {
		c.left++
	}
	return fits
}

// over ends the windows that are over at now, and returns what is to be said of them.
func (p *logPace) over(now time.Time) []slog.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.IsZero() || now.Before(p.next) {
		return nil
	}
	p.next = time.Time{}
	var told []slog.Record
	for _, msg := range slices.Sorted(maps.Keys(p.windows)) {
		c := p.windows[msg]
		if end := c.since.Add(paceWindow); now.Before(end) {
			if p.next.IsZero() || end.Before(p.next) {
				p.next = end
			}
			continue
		}
		delete(p.windows, msg)
		if c.left > 0 {
			most := slices.MaxFunc(slices.Sorted(maps.Keys(c.by)), func(a, b string) int { return cmp.Compare(c.by[a], c.by[b]) })
			r := slog.NewRecord(now, c.level, "there were more lines of a kind than are written", 0)
			r.AddAttrs(slog.String("kind", msg), slog.Int("left_out", c.left), slog.String("most_from", most), slog.Duration("in", now.Sub(c.since).Round(time.Second)))
			told = append(told, r)
		}
	}
	return told
}
