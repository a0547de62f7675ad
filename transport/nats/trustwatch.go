package nats

import (
	"log/slog"
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
	told  string            // the last error
}

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
	if text != "" && text != w.told && w.log != nil {
		w.log.Warn("the folder of keys cannot be read: what is revoked is not noticed", "err", text)
	}
	w.told = text
}
