package nats

import (
	"log/slog"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// trustEvery is how often a server looks whether credentials were revoked.
const trustEvery = time.Second

// trustWatch tells a server of accounts that have changed in the folder of keys: it ends the connections of those whose credentials were revoked. New
// accounts are found by the server itself.
type trustWatch struct {
	ns    func() *server.Server
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
				err = w.update(id, token)
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

// update gives the server the new JWT of an account.
func (w *trustWatch) update(id, token string) error {
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return err
	}
	account, err := w.ns().LookupAccount(id)
	if err != nil {
		return err
	}
	w.ns().UpdateAccountClaims(account, claims)
	return nil
}
