package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// readyCheck is one part of being ready.
type readyCheck struct {
	name string
	of   func(ctx context.Context) error
}

// readyChecks returns what has to be so before the node can accept and store work, the most basic first. A server that waits for its disk answers nothing
// else, and says so at once.
func (n *node) readyChecks() []readyCheck {
	return []readyCheck{
		{"streams", func(context.Context) error {
			if n.server != nil {
				if serious, err := n.server.Missing(); serious {
					return err
				}
			}
			return nil
		}},
		{"transport", func(ctx context.Context) error { return n.healthy(ctx) }}, // its link is not there yet
		{"inbox", func(context.Context) error {
			if n.orchestrator.Owned() == nil {
				return errors.New("it has not begun to take work")
			}
			return nil
		}},
		{"store", func(ctx context.Context) error {
			for _, err := range n.store.Load(ctx, n.tenant, noConversationID, 0) {
				if err != nil {
					return fmt.Errorf("store: %w", err)
				}
				break
			}
			return nil
		}},
	}
}

// noConversationID is the id of no conversation, as none has spaces: to load it gives nothing, but shows that the store answers. Somebody could fill another one.
const noConversationID = "no conversation"

const (
	readyEach = 5 * time.Second  // that a check may take: the server may have much to write that came before
	readyWait = 2 * time.Second  // that somebody waits who asks: monitors wait for three
	readyOld  = 30 * time.Second // of the checks before, which count while the next are under way
)

// checkResult is what came of a check.
type checkResult struct {
	name string
	took time.Duration
	err  error
}

// inspection is a run of all checks.
type inspection struct {
	over chan struct{} // closed at its end, before which the others are not read
	all  []checkResult
	at   time.Time // the end
}

// failed returns the first check that failed; nil if none did.
func (i *inspection) failed() error {
	for _, c := range i.all {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// readiness runs the checks, once for all who ask meanwhile: one of them writes, so that many who ask would be a load. It is safe for concurrent use.
type readiness struct {
	checks []readyCheck

	mu        sync.Mutex
	now, last *inspection // under way, and the one before; nil: there is none
}

// inspect returns the run that is under way, which may have begun before, and the one before that.
func (r *readiness) inspect(ctx context.Context) (now, last *inspection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil {
		r.now = &inspection{over: make(chan struct{})}
		go r.run(context.WithoutCancel(ctx), r.now)
	}
	return r.now, r.last
}

func (r *readiness) run(ctx context.Context, is *inspection) {
	for _, c := range r.checks {
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, readyEach)
		err := c.of(ctx)
		cancel()
		is.all = append(is.all, checkResult{c.name, time.Since(began).Round(10 * time.Microsecond), err})
	}
	is.at = time.Now()
	r.mu.Lock()
	r.now, r.last = nil, is
	r.mu.Unlock()
	close(is.over)
}

// ask returns why the node cannot accept and store work now, or nil. It answers soon: while checks take long, those before count, for some time.
func (r *readiness) ask(ctx context.Context) error {
	now, last := r.inspect(ctx)
	late := time.NewTimer(readyWait)
	defer late.Stop()
	select {
	case <-now.over:
		return now.failed()
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
	}
	if last == nil || time.Since(last.at) > readyOld {
		return fmt.Errorf("its transport and its store have not answered within %v", readyWait)
	}
	return last.failed()
}

// verbose answers /readyz?verbose: a line for each check, in the form of Kubernetes, then one for each trouble. It waits for all checks.
func (n *node) verbose(ctx context.Context, w http.ResponseWriter, open *ports, owned *ownership, is *readiness) {
	beside, starting := n.roles.Trouble()
	now, _ := is.inspect(ctx)
	select {
	case <-now.over:
	case <-ctx.Done():
		return
	}
	all := append(slices.Clone(now.all), checkResult{"owners", 0, owned.lost(time.Now())}, checkResult{"roles", 0, starting})
	status, verdict := http.StatusOK, "readyz check passed"
	var lines []string
	for _, c := range all {
		if c.err != nil {
			status, verdict = http.StatusServiceUnavailable, "readyz check failed"
			lines = append(lines, fmt.Sprintf("[-]%s failed (%v): %s", c.name, c.took, oneLine(c.err)))
			continue
		}
		lines = append(lines, fmt.Sprintf("[+]%s ok (%v)", c.name, c.took))
	}
	for _, line := range n.troubles(open, beside) {
		lines = append(lines, "[!]"+line)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	for _, line := range append(lines, verdict) {
		fmt.Fprintln(w, line)
	}
}

// briefly returns h, of whose answer a request from this machine that names another one gets the status only: readiness is for monitors behind a proxy, too,
// but what is wrong names conversations, agents and addresses, and is not for pages of a browser.
func briefly(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !byAnotherName(r) {
			h(w, r)
			return
		}
		all := &statusOnly{header: http.Header{}, code: http.StatusOK}
		h(all, r)
		said := "ok"
		if all.code != http.StatusOK {
			said = "not ready: on this machine, ask for 127.0.0.1 or localhost to learn why"
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(all.code)
		fmt.Fprintln(w, said)
	}
}

// statusOnly is an http.ResponseWriter that keeps the status.
type statusOnly struct {
	header http.Header
	code   int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(code int)        { s.code = code }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
