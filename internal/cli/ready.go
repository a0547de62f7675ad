package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
		{"transport", n.healthy},
		{"inbox", func(context.Context) error {
			if n.orchestrator.Owned() == nil {
				return errors.New("it has not begun to take work")
			}
			return nil
		}},
		{"store", func(ctx context.Context) error {
			for _, err := range n.store.Load(ctx, n.tenant, "readyz", 0) { // no such conversation: the result is empty, but it is a result
				if err != nil {
					return fmt.Errorf("store: %w", err)
				}
			}
			return nil
		}},
	}
}

// ready returns why the node cannot accept and store work now, or nil.
func (n *node) ready(ctx context.Context) error {
	for _, c := range n.readyChecks() {
		if err := c.of(ctx); err != nil {
			return err
		}
	}
	return nil
}

// verbose answers /readyz?verbose: a line for each check, in the form of Kubernetes, then one for each trouble.
func (n *node) verbose(ctx context.Context, w http.ResponseWriter, open *ports, owned *ownership) {
	beside, starting := n.roles.Trouble()
	all := append(n.readyChecks(), readyCheck{"owners", func(context.Context) error { return owned.lost(time.Now()) }},
		readyCheck{"roles", func(context.Context) error { return starting }})
	status, verdict := http.StatusOK, "readyz check passed"
	var lines []string
	for _, c := range all {
		began := time.Now()
		err := c.of(ctx)
		took := time.Since(began).Round(10 * time.Microsecond)
		if err != nil {
			status, verdict = http.StatusServiceUnavailable, "readyz check failed"
			lines = append(lines, fmt.Sprintf("[-]%s failed (%v): %s", c.name, took, oneLine(err)))
			continue
		}
		lines = append(lines, fmt.Sprintf("[+]%s ok (%v)", c.name, took))
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
