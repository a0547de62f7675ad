package logs

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bounds of what waits for a log that takes nothing.
const (
	patience   = time.Second // of who writes a line
	maxWaiting = 1 << 20     // bytes of lines
)

// Patient is a writer to a log that may take nothing for any time, as a pipe of which nobody reads, or a terminal that was stopped with Ctrl-S. Who
// writes to it waits for a second at most: otherwise all work would wait, which has something to log. While nothing is taken, lines wait up to a bound,
// and later ones are lost, which the next line that is taken says. It is safe for concurrent use.
type Patient struct {
	to io.Writer

	mu      sync.Mutex
	waiting []*line
	size    int       // bytes of waiting
	writing bool      // a goroutine does
	began   time.Time // its present write
	stuck   bool      // somebody has waited in vain for it
	lost    int       // lines
}

// line is one write.
type line struct {
	text []byte
	done chan struct{} // closed when it was written
	err  error
}

// NewPatient returns a Patient that writes to w.
func NewPatient(w io.Writer) *Patient { return &Patient{to: w} }

// Write implements [io.Writer]. It returns the error of the underlying Write, unless that takes too long.
func (p *Patient) Write(b []byte) (int, error) {
	p.mu.Lock()
	if p.size > 0 && p.size+len(b) > maxWaiting {
		p.lost++
		p.mu.Unlock()
		return len(b), nil
	}
	l := &line{text: bytes.Clone(b), done: make(chan struct{})}
	p.waiting = append(p.waiting, l)
	p.size += len(b)
	if !p.writing {
		p.writing = true
		go p.write()
	}
	stuck := p.stuck
	p.mu.Unlock()
	if stuck {
		return len(b), nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.done:
		if l.err != nil {
			return 0, l.err
		}
	case <-late.C:
		p.mu.Lock()
		p.stuck = p.stuck || p.writing && len(p.waiting) > 0 && time.Since(p.began) >= patience
		p.mu.Unlock()
	}
	return len(b), nil
}

// write writes what waits.
func (p *Patient) write() {
	for {
		p.mu.Lock()
		if len(p.waiting) == 0 {
			p.writing = false
			p.mu.Unlock()
			return
		}
		l := p.waiting[0]
		p.began = time.Now()
		p.mu.Unlock()
		_, l.err = p.to.Write(l.text)
		p.mu.Lock()
		p.waiting = p.waiting[1:]
		p.size -= len(l.text)
		lost := p.lost
		p.stuck, p.lost = false, 0
		p.mu.Unlock()
		close(l.done)
		if lost > 0 {
			fmt.Fprintf(p.to, "%d lines are lost here: the log took nothing\n", lost) //nolint:errcheck // as of the line
		}
	}
}

// Trouble returns a line while the log takes nothing. A nil Patient has none.
func (p *Patient) Trouble() []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stuck {
		return nil
	}
	return []string{fmt.Sprintf("the log takes nothing since %s: %d lines wait, and %d are lost: does somebody read it?", p.began.UTC().Format(time.DateTime), len(p.waiting), p.lost)}
}
