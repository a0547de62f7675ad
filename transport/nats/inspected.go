package nats

import (
	"sync"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// inspected is a server that is asked for its streams while its accounts change: both wait for each other here, because the server changes the name of an
// account while it reports it (v2.15.2: updateAccountClaimsWithRefresh writes nameTag, accountDetail reads it without the account's lock).
type inspected struct {
	*server.Server
	mu sync.RWMutex
}

// Jsz hides the server's method.
func (w *inspected) Jsz(o *server.JSzOptions) (*server.JSInfo, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.Server.Jsz(o)
}

// updateAccount gives the server the JWT of an account, to which it adds what else is known to be revoked, and the bound of [auth.Bound].
func (w *inspected) updateAccount(id, token string, revoked auth.Revocations) error {
	claims, err := auth.Account(token)
	if err != nil {
		return err
	}
	revoked.Meet(claims)
	auth.Bound(claims)
	account, err := w.LookupAccount(id)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.UpdateAccountClaims(account, claims)
	return nil
}
