package auth

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
)

// Trust is what a server needs to identify its users. It contains no secrets.
type Trust struct {
	Operator string            // path of the operator's JWT
	System   string            // id of the system account
	Accounts map[string]string // JWTs of all accounts, by id
}

// Load reads a folder's Trust. The error wraps ErrNoFolder when the folder has no keys of Init.
func Load(dir string) (*Trust, error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	t := &Trust{Operator: filepath.Join(dir, operatorFile), Accounts: map[string]string{}}
	_, err := readFile(t.Operator) // bounds its size: the server reads it without a limit
	if err != nil {
		return nil, err
	}
	if t.System, err = t.add(filepath.Join(dir, systemFile)); err != nil {
		return nil, err
	}
	files, err := tenantFiles(dir, accountFile)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if _, err := t.add(f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add reads the JWT of an account and returns the account's id.
func (t *Trust) add(file string) (id string, err error) {
	b, err := readAccountFile(file)
	if err != nil {
		return "", err
	}
	c, err := jwt.DecodeAccountClaims(string(b))
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	t.Accounts[c.Subject] = string(b)
	return c.Subject, nil
}

// Account returns the claims of an account's JWT.
func Account(token string) (*jwt.AccountClaims, error) { return jwt.DecodeAccountClaims(token) }

// Bound gives an account the bound of memory that those lack which an older build has made, and reports whether it lacked it.
func Bound(account *jwt.AccountClaims) bool {
	lacked := account.Limits.MemoryStorage == jwt.NoLimit
	if lacked {
		account.Limits.MemoryStorage = MaxMemory
	}
	return lacked
}

// Fetch returns the JWT of the account with this id as the folder has it now; tenants may be added while a server runs.
func Fetch(dir, id string) (string, error) {
	t, err := Load(dir)
	if err != nil {
		return "", err
	}
	if token, ok := t.Accounts[id]; ok {
		return token, nil
	}
	return "", fmt.Errorf("account %.100q: %w", id, fs.ErrNotExist)
}

// Resolver returns the path of a configuration that makes another nats-server trust the folder. Include it in that server's configuration, and
// reload it (`nats-server --signal reload`) after a tenant was added.
func Resolver(dir string) string { return filepath.Join(dir, resolverFile) }

// writeResolver writes the file that Resolver names.
func writeResolver(dir string) error {
	t, err := Load(dir)
	if err != nil {
		return err
	}
	operator, err := readFile(t.Operator)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by cortex auth: include it into the configuration of each nats-server. No secrets are in it.\n")
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", operator, t.System)
	for _, id := range slices.Sorted(maps.Keys(t.Accounts)) {
		fmt.Fprintf(&b, "  %s: %s\n", id, t.Accounts[id])
	}
	b.WriteString("}\n")
	return replace(Resolver(dir), []byte(b.String()))
}
