package auth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
)

// ErrRevoked is returned by Bearer.Identify for tokens of credentials that were revoked.
var ErrRevoked = errors.New("the credentials of this bearer token were revoked")

// Revoke makes credentials of an agent or a person worthless, and with them the bearer tokens made of them, and removes them from the folder. An
// embedded server ends their connections within seconds; other servers need the new configuration. New credentials can be made for the same name.
// The file may be a copy that is elsewhere, which stays.
func Revoke(dir, file string) (*Identity, error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	who, err := Read(file)
	if err != nil && !errors.Is(err, ErrExpired) {
		return nil, err
	}
	if !who.Limited() {
		return nil, fmt.Errorf("%s: these are not the credentials of an agent or a person: only those can be revoked", file)
	}
	claims, err := userClaims(file)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := filepath.Join(tenantDir(dir, who.Tenant), accountFile)
	account, err := readAccount(path)
	if err != nil {
		return nil, err
	}
	if account.Subject != claims.Issuer {
		return nil, fmt.Errorf("%s: these credentials were not made with the keys in %s", file, dir)
	}
	made := time.Unix(claims.IssuedAt, 0)
	account.RevokeAt(claims.Subject, slices.MaxFunc([]time.Time{time.Now(), made}, time.Time.Compare)) // the clock may have been ahead when they were made
	if err := signAccount(dir, path, account); err != nil {
		return nil, err
	}
	if err := writeResolver(dir); err != nil {
		return nil, err
	}
	return who, removeOwn(dir, who, claims.Subject)
}

// removeOwn removes the credentials with this key from the folder.
func removeOwn(dir string, who *Identity, key string) error {
	own := AgentFile(dir, who.Tenant, who.ID)
	switch {
	case who.Role == Person && !strings.HasPrefix(who.ID, personPrefix): // those of all people
		own = People(dir, who.Tenant)
	case who.Role == Person:
		own = UserFile(dir, who.Tenant, strings.TrimPrefix(who.ID, personPrefix))
	}
	if claims, err := userClaims(own); err != nil || claims.Subject != key {
		return nil //nolint:nilerr // there are none, or newer ones
	}
	return os.Remove(own)
}

// userClaims returns the claims of a file of credentials.
func userClaims(file string) (*jwt.UserClaims, error) {
	b, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	return claimsIn(b)
}

func claimsIn(creds []byte) (*jwt.UserClaims, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return nil, err
	}
	return jwt.DecodeUserClaims(token)
}

func readAccount(path string) (*jwt.AccountClaims, error) {
	b, err := readAccountFile(path)
	if err != nil {
		return nil, err
	}
	c, err := jwt.DecodeAccountClaims(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// revocations knows which credentials of an account were revoked. It is safe for concurrent use.
type revocations struct {
	path string // of the account's JWT; a folder without it has no revocations that could be known
	of   string // the account's id

	mu      sync.Mutex
	changed time.Time
	size    int64
	account *jwt.AccountClaims
}

// newRevocations returns the revocations of an account, as the file in the folder of its tenant has them now.
func newRevocations(folder, account string) *revocations {
	r := &revocations{path: filepath.Join(folder, accountFile), of: account}
	r.read()
	return r
}

// have reports whether credentials were revoked.
func (r *revocations) have(user *jwt.UserClaims) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	if r.account == nil || r.of != user.Issuer {
		return false
	}
	_, own := r.account.Revocations[user.Subject] // each file of credentials has a key of its own, whatever clocks said
	return own || r.account.IsClaimRevoked(user)
}

// read reads the file if it has changed. What cannot be read, or is of another account, counts as it was read last.
func (r *revocations) read() {
	info, err := os.Stat(r.path)
	if err != nil || r.account != nil && info.ModTime().Equal(r.changed) && info.Size() == r.size {
		return
	}
	if account, err := readAccount(r.path); err == nil && account.Subject == r.of {
		r.account, r.changed, r.size = account, info.ModTime(), info.Size()
	}
}
