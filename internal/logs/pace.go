package logs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Limits of similar lines within a time window, for lines that external requests cause: anybody who can reach the server can cause any number of
// them.
const (
	window    = 10 * time.Second
	maxEach   = 10  // about one agent, sender or subject
	maxAll    = 200 // about all of them together
	maxSource = 128 // bytes of a source
)

// paced is a handler that omits lines above the limits. The first line after the window reports how many were omitted. Errors, and lines without a
// source, are always written.
type paced struct {
	slog.Handler
	pace *pace
}

func newPaced(h slog.Handler) paced {
	return paced{h, &pace{windows: map[string]*count{}}}
}

// Handle implements [slog.Handler].
func (p paced) Handle(ctx context.Context, r slog.Record) error {
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
func (p paced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return paced{p.Handler.WithAttrs(attrs), p.pace}
}

// WithGroup implements [slog.Handler].
func (p paced) WithGroup(name string) slog.Handler {
	return paced{p.Handler.WithGroup(name), p.pace}
}

// sourceOf returns who caused r to be written; "" when no external source did. Lines about a conversation's work count only when they name a sender, or
// a receiver who does not take what is sent.
func sourceOf(r slog.Record) string {
	var from, to, about string
	work := false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "from":
			from = a.Value.String()
		case "to":
			to = a.Value.String()
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
	source := cmp.Or(from, about, to)
	return source[:min(len(source), maxSource)]
}

// pace counts lines by their message.
type pace struct {
	mu      sync.Mutex
	windows map[string]*count // by the message, a constant of the program
	next    time.Time         // when the first window ends
}

// count counts the lines of a window.
type count struct {
	level slog.Level
	since time.Time
	lines int
	left  int
	by    map[string]int // all lines of each source that has had one written
}

// take reports whether r is to be written.
func (p *pace) take(r slog.Record, source string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.windows[r.Message]
	if c == nil {
		c = &count{level: r.Level, since: r.Time, by: map[string]int{}}
		p.windows[r.Message] = c
		if end := r.Time.Add(window); p.next.IsZero() || end.Before(p.next) {
			p.next = end
		}
	}
	n, known := c.by[source]
	fits := n < maxEach && c.lines < maxAll
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

// over ends the windows that are over at now, and returns records about what they omitted.
func (p *pace) over(now time.Time) []slog.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.IsZero() || now.Before(p.next) {
		return nil
	}
	p.next = time.Time{}
	var told []slog.Record
	for _, msg := range slices.Sorted(maps.Keys(p.windows)) {
		c := p.windows[msg]
		if end := c.since.Add(window); now.Before(end) {
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
