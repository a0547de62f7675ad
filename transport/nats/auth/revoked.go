package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/nats-io/jwt/v2"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxRevoked bounds a file of revocations, in bytes.
const maxRevoked = 16 << 20

// Revocations are all that is known to be revoked, by the account's id and the public key of the credentials: the time, in Unix seconds, before which they
// were made. A folder of keys that is restored from a backup has forgotten what was revoked since; who has seen it before knows.
type Revocations map[string]jwt.RevocationList

// ReadRevocations reads what [Revocations.Write] has written; nothing if there is no file.
func ReadRevocations(path string) (Revocations, error) {
	all := Revocations{}
	b, _, err := document.ReadRegular(path, maxRevoked)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	if all, err = ParseRevocations(b); err != nil {
		return all, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// ParseRevocations reads the JSON of Revocations. With an error they are none.
func ParseRevocations(b []byte) (Revocations, error) {
	all := Revocations{}
	err := json.Unmarshal(b, &all)
	if err == nil && all == nil {
		err = errors.New("there is nothing in it")
	}
	if err != nil {
		return Revocations{}, err
	}
	return all, nil
}

// Add adds to r what only other has, and returns how many that are.
func (r Revocations) Add(other Revocations) (lacked int) {
	for account, of := range other {
		for key, at := range of {
			if r[account][key] >= at {
				continue
			}
			if r[account] == nil {
				r[account] = jwt.RevocationList{}
			}
			r[account][key] = at
			lacked++
		}
	}
	return lacked
}

// Write writes the file at path atomically. It returns the size and the time of what it has written, which the file has for as long as nobody changes it.
func (r Revocations) Write(path string) (fs.FileInfo, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return put(path, b)
}

// Meet adds the revocations of an account to r, and those that only r has to the account. It returns how many the account lacked, and whether r has
// changed.
func (r Revocations) Meet(account *jwt.AccountClaims) (lacked int, changed bool) {
	known := r[account.Subject]
	if known == nil {
		known = jwt.RevocationList{}
	}
	for key, at := range account.Revocations {
		if known[key] < at {
			known[key], changed = at, true
		}
	}
	for key, at := range known {
		if account.Revocations[key] < at {
			if account.Revocations == nil {
				account.Revocations = jwt.RevocationList{}
			}
			account.Revocations[key] = at
			lacked++
		}
	}
	if len(known) > 0 {
		r[account.Subject] = known
	}
	return lacked, changed
}

// PutBack adds the revocations of r to the accounts in a folder that lack some. It needs the key that signs accounts.
func (r Revocations) PutBack(dir string) error {
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	files, err := tenantFiles(dir, accountFile)
	if err != nil {
		return err
	}
	some := false
	for _, path := range files {
		account, err := readAccount(path)
		if err != nil {
			return err
		}
		if lacked, _ := r.Meet(account); lacked == 0 {
			continue
		}
		if err := signAccount(dir, path, account); err != nil {
			return err
		}
		some = true
	}
	if !some {
		return nil
	}
	return writeResolver(dir)
}

// signAccount writes the file of an account. One that nobody could read would let nobody in any more, and so is not written.
func signAccount(dir, path string, account *jwt.AccountClaims) error {
	signing, err := readKey(filepath.Join(dir, signingKey))
	if err != nil {
		return err
	}
	b, err := encode(account, signing)
	if err != nil {
		return err
	}
	if len(b) > maxAccount {
		return fmt.Errorf("%s would have %d bytes with %d revocations, and may have %d: revoke no more, but make new keys in another folder", path, len(b), len(account.Revocations), maxAccount)
	}
	return replace(path, b)
}
