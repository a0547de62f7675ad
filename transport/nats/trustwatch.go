package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// trustEvery is how often a server looks whether credentials were revoked.
const trustEvery = time.Second

// trustWatch tells a server of accounts that have changed in the folder of keys: it ends the connections of those whose credentials were revoked. New
// accounts are found by the server itself.
type trustWatch struct {
	ns    *inspected
	dir   string
	log   *slog.Logger
	known map[string]string // JWTs, by account

	mu   sync.Mutex
	told string // the last error
}

// Untrusted returns an error while the folder of keys cannot be read: credentials that are revoked then keep their connections, until it can be read
// again or the server is started again.
func (s *Server) Untrusted() error {
	if s.trust == nil {
		return nil
	}
	s.trust.mu.Lock()
	defer s.trust.mu.Unlock()
	if s.trust.told == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errUntrusted, s.trust.told)
}

var errUntrusted = errors.New("the folder of keys cannot be read, and what is revoked is not noticed")

// serve looks until done is closed.
func (w *trustWatch) serve(done <-chan struct{}) {
	tick := time.NewTicker(trustEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			w.look()
		}
	}
}

// look reads the folder once.
func (w *trustWatch) look() {
	trust, err := auth.Load(w.dir)
	if err == nil {
		for id, token := range trust.Accounts {
			if before, ok := w.known[id]; ok && before != token {
				err = w.ns.updateAccount(id, token)
			}
			if err != nil {
				break
			}
			w.known[id] = token
		}
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	before := w.told
	w.told = text
	w.mu.Unlock()
	if text != "" && text != before && w.log != nil {
		w.log.Warn("the folder of keys cannot be read: what is revoked is not noticed", "err", text)
	}
}
