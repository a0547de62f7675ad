package auth

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Files of a folder. Those of each tenant are in its own folder below tenants.
const (
	operatorKey  = "operator.nk"  // the root of all trust; only needed to make signing keys, and can be kept elsewhere
	signingKey   = "signing.nk"   // signs accounts
	operatorFile = "operator.jwt" // what a server trusts
	systemKey    = "system.nk"
	systemFile   = "system.jwt"
	resolverFile = "resolver.conf"
	tenantsDir   = "tenants"
	accountKey   = "account.nk" // signs users
	accountFile  = "account.jwt"
	agentsDir    = "agents"
	usersDir     = "users"
	credsSuffix  = ".creds"
	keySuffix    = ".nk"
	adminFile    = string(Orchestrator) + credsSuffix
	peopleFile   = string(Person) + credsSuffix
)

// ErrNoFolder is returned for a folder without keys of Init.
var ErrNoFolder = errors.New("there are no keys")

// Init makes the keys of a folder and of tenants in it, the default one when none are named: an operator, a system account, for each tenant an
// account with credentials for its orchestrator and for people, and the configuration for other servers. It keeps existing files, so that it may be
// called again, also after an interruption.
func Init(dir string, tenants ...string) error {
	if len(tenants) == 0 {
		tenants = []string{""}
	}
	for _, t := range tenants {
		if err := checkTenant(t); err != nil {
			return err
		}
	}
	if err := initOperator(dir); err != nil {
		return fmt.Errorf("make keys in %s: %w", dir, err)
	}
	for _, t := range tenants {
		if err := AddTenant(dir, t); err != nil {
			return err
		}
	}
	return nil
}

// initOperator writes the operator's file last: when it exists, nothing is missing, and the operator's key may have been moved elsewhere.
func initOperator(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, tenantsDir), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs its x
		return err
	}
	return ensureFile(filepath.Join(dir, operatorFile), func() ([]byte, error) {
		operator, id, err := ensureKey(filepath.Join(dir, operatorKey), nkeys.CreateOperator)
		if err != nil {
			return nil, err
		}
		signing, signer, err := ensureKey(filepath.Join(dir, signingKey), nkeys.CreateOperator)
		if err != nil {
			return nil, err
		}
		_, system, err := ensureKey(filepath.Join(dir, systemKey), nkeys.CreateAccount)
		if err != nil {
			return nil, err
		}
		err = ensureFile(filepath.Join(dir, systemFile), func() ([]byte, error) {
			c := jwt.NewAccountClaims(system)
			c.Name = namePrefix + "-system"
			return encode(c, signing)
		})
		if err != nil {
			return nil, err
		}
		c := jwt.NewOperatorClaims(id)
		c.Name = namePrefix
		c.SigningKeys.Add(signer)
		c.SystemAccount = system
		return encode(c, operator)
	})
}

// AddTenant adds a tenant to a folder of Init, whole or not at all, and keeps existing files like Init. An embedded server finds the tenant by itself; other servers
// need the new configuration.
func AddTenant(dir, tenant string) error {
	if err := checkTenant(tenant); err != nil {
		return err
	}
	if err := addTenant(dir, tenant); err != nil {
		return fmt.Errorf("make keys of %s in %s: %w", TenantName(tenant), dir, err)
	}
	return nil
}

func addTenant(dir, tenant string) error {
	if err := check(dir); err != nil {
		return err
	}
	unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	folder := tenantDir(dir, tenant)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if err := makeTenant(dir, folder, tenant); err != nil {
			return err
		}
	}
	if err := fillTenant(dir, folder, tenant); err != nil { // what an older version was killed in, or where something was taken away
		return err
	}
	return writeResolver(dir)
}

// makeTenant makes the folder of a tenant, which appears whole or not at all. Another process that makes it at once may be the one that wins.
func makeTenant(dir, folder, tenant string) error {
	removeLeftovers(filepath.Dir(folder))
	tmp, err := os.MkdirTemp(filepath.Dir(folder), tempPrefix+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // it is in nobody's way
	if err := fillTenant(dir, tmp, tenant); err != nil {
		return err
	}
	if err := os.Rename(tmp, folder); err != nil {
		if _, missing := os.Stat(folder); missing != nil {
			return err
		}
	}
	return nil
}

// MaxMemory bounds the streams of a tenant that are kept in memory, in bytes. Cortex keeps its leases there, a few kilobytes; a tenant whose orchestrator's
// credentials are in wrong hands does not take the memory of the server that others share.
const MaxMemory = 16 << 20

// fillTenant makes the files that a tenant has and folder lacks.
func fillTenant(dir, folder, tenant string) error {
	if err := ensureFile(filepath.Join(folder, accountFile), func() ([]byte, error) {
		_, account, err := ensureKey(filepath.Join(folder, accountKey), nkeys.CreateAccount) // not beside an account that has another
		if err != nil {
			return nil, err
		}
		signing, err := readKey(filepath.Join(dir, signingKey))
		if err != nil {
			return nil, err
		}
		c := jwt.NewAccountClaims(account)
		c.Name = namePrefix + "." + transport.Escape(tenant)
		// Only the disk is the limit, as without accounts.
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: MaxMemory, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit,
		}
		return encode(c, signing)
	}); err != nil {
		return err
	}
	for _, i := range []*Identity{
		{Role: Orchestrator, Tenant: tenant, ID: transport.Cortex, File: filepath.Join(folder, adminFile)},
		{Role: Person, Tenant: tenant, ID: "user", File: filepath.Join(folder, peopleFile)},
	} {
		if err := ensureCreds(folder, i); err != nil {
			return err
		}
	}
	return nil
}

// AddAgent makes credentials for the agent with this id, its [transport.AgentID], and returns their file. Servers do not need to be told. Existing
// credentials are kept unless they were revoked. Those of a name that could once be chosen stay valid, but the agent cannot announce itself.
func AddAgent(dir, tenant, id string) (file string, err error) {
	if err := transport.CheckAgent(id); err != nil {
		return "", fmt.Errorf("name %w", err)
	}
	return add(dir, agentsDir, &Identity{Role: Agent, Tenant: tenant, ID: id}, id)
}

// AddUser makes credentials for a person, whose events are then from "user:NAME", and returns their file, like AddAgent.
func AddUser(dir, tenant, name string) (file string, err error) {
	if err := transport.CheckPerson(name); err != nil {
		return "", fmt.Errorf("name %w: choose another", err)
	}
	return add(dir, usersDir, &Identity{Role: Person, Tenant: tenant, ID: personPrefix + name}, name)
}

func add(dir, kind string, i *Identity, name string) (string, error) {
	if err := i.check(); err != nil {
		return "", err
	}
	if err := check(dir); err != nil {
		return "", err
	}
	if _, err := os.Stat(tenantDir(dir, i.Tenant)); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w for %s in %s: `cortex auth add tenant NAME` makes some", ErrNoFolder, TenantName(i.Tenant), dir)
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	folder := filepath.Join(tenantDir(dir, i.Tenant), kind)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	i.File = filepath.Join(folder, transport.Escape(name)+credsSuffix)
	return i.File, ensureCreds(tenantDir(dir, i.Tenant), i)
}

// Tenants returns the tenants of a folder by the ids of their accounts.
func Tenants(dir string) (map[string]string, error) {
	files, err := tenantFiles(dir, accountFile)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, f := range files {
		b, err := readAccountFile(f)
		if err != nil {
			return nil, err
		}
		c, err := jwt.DecodeAccountClaims(string(b))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		tenant, err := transport.Unescape(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue // not a folder of Cortex
		}
		all[c.Subject] = tenant
	}
	return all, nil
}

// Admin returns the path of the credentials of a tenant's orchestrator, which may be missing.
func Admin(dir, tenant string) string {
	return filepath.Join(tenantDir(dir, tenant), adminFile)
}

// FolderOf returns the folder of keys of which a file is [Admin], "" if it lies elsewhere.
func FolderOf(file, tenant string) string {
	if file == "" {
		return ""
	}
	dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if filepath.Clean(file) != Admin(dir, tenant) || check(dir) != nil {
		return ""
	}
	return dir
}

// Admins returns the credentials of the tenants' orchestrators, by the id of their account. A tenant without such a file is left out.
func Admins(dir string) (map[string]string, error) {
	all, err := Tenants(dir)
	if err != nil {
		return nil, err
	}
	for account, tenant := range all {
		all[account] = Admin(dir, tenant)
		if _, err := os.Stat(all[account]); err != nil {
			delete(all, account)
		}
	}
	return all, nil
}

// People returns the path of the credentials that the people of a tenant may share, whose events are then from "user".
func People(dir, tenant string) string {
	return filepath.Join(tenantDir(dir, tenant), peopleFile)
}

// AgentFile returns the path of the credentials of an agent, which may be missing.
func AgentFile(dir, tenant, id string) string {
	return filepath.Join(tenantDir(dir, tenant), agentsDir, transport.Escape(id)+credsSuffix)
}

// UserFile returns the path of the credentials of a person, which may be missing.
func UserFile(dir, tenant, name string) string {
	return filepath.Join(tenantDir(dir, tenant), usersDir, transport.Escape(name)+credsSuffix)
}

// AgentIDs returns the ids of the agents of a tenant that have credentials in a folder, sorted. The names of the files say it, so that a damaged file
// hides nobody.
func AgentIDs(dir, tenant string) ([]string, error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	files, err := filesWith(filepath.Join(tenantDir(dir, tenant), agentsDir), credsSuffix)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, f := range files {
		if id, err := transport.Unescape(strings.TrimSuffix(filepath.Base(f), credsSuffix)); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// List returns the identities of all credentials in a folder, by tenant, then orchestrator, people and agents.
func List(dir string) ([]*Identity, error) {
	if err := check(dir); err != nil {
		return nil, err
	}
	tenants, err := namesIn(filepath.Join(dir, tenantsDir))
	if err != nil {
		return nil, err
	}
	var files []string
	for _, kind := range []string{"", agentsDir, usersDir} {
		for _, tenant := range tenants {
			some, err := filesWith(filepath.Join(dir, tenantsDir, tenant, kind), credsSuffix)
			if err != nil {
				return nil, err
			}
			files = append(files, some...)
		}
	}
	var all []*Identity
	for _, f := range files {
		i, err := Read(f)
		if err != nil && !errors.Is(err, ErrExpired) {
			return nil, err
		}
		if i != nil {
			all = append(all, i)
		}
	}
	order := []Role{Orchestrator, Person, Agent}
	slices.SortFunc(all, func(a, b *Identity) int {
		byRole := cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role))
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), byRole, strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

func tenantDir(dir, tenant string) string {
	return filepath.Join(dir, tenantsDir, transport.Escape(tenant))
}

// TenantName names a tenant within a sentence.
func TenantName(tenant string) string {
	if tenant == "" {
		return "the default tenant"
	}
	return fmt.Sprintf("tenant %q", tenant)
}

// check returns ErrNoFolder for a folder without keys of Init.
func check(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, operatorFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w in %s: `cortex auth init` makes some", ErrNoFolder, dir)
	} else if err != nil {
		return err
	}
	return nil
}

// Check returns an error for the first file of a folder that is damaged, also for those that a server does not read: a key that cannot sign is missed
// only when somebody has to be kept out. A key that is not there may be kept elsewhere.
func Check(dir string) error {
	trust, err := Load(dir)
	if err != nil {
		return err
	}
	operator, err := readFile(trust.Operator)
	if err != nil {
		return err
	}
	if _, err := jwt.DecodeOperatorClaims(string(operator)); err != nil {
		return fmt.Errorf("%s: %w", trust.Operator, err)
	}
	keys, err := filesWith(dir, keySuffix)
	if err != nil {
		return err
	}
	more, err := tenantFiles(dir, accountKey)
	if err != nil {
		return err
	}
	for _, path := range append(keys, more...) {
		key, err := readKey(path)
		if err != nil {
			return err
		}
		public, err := key.PublicKey()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if filepath.Base(path) != accountKey {
			continue
		}
		of, err := readAccountFile(filepath.Join(filepath.Dir(path), accountFile))
		if err != nil {
			return err
		}
		if trust.Accounts[public] != string(of) {
			return fmt.Errorf("%s: it is not the key of the account in %s", path, accountFile)
		}
	}
	_, err = List(dir)
	return err
}

// ensureCreds makes credentials of the tenant with this folder unless there are some. Those that were revoked and are still there, because the revocation was killed before it removed
// them or because the folder comes from a backup, are replaced: nobody would be let in with them. Nor would anybody with what is damaged, or signed with
// a key that is not the account's, which is an error.
func ensureCreds(folder string, i *Identity) error {
	content := func() ([]byte, error) {
		account, err := readKey(filepath.Join(folder, accountKey))
		if err != nil {
			return nil, err
		}
		if err := checkAccountKey(folder, account); err != nil {
			return nil, err
		}
		return issue(i, account, time.Time{})
	}
	b, err := readFile(i.File)
	if errors.Is(err, fs.ErrNotExist) {
		return ensureFile(i.File, content)
	}
	if err != nil {
		return err
	}
	claims, err := claimsIn(b)
	if err != nil {
		return fmt.Errorf("%s: these are no NATS credentials: move the file away, and make them again", i.File)
	}
	if is := parseName(claims.Name); is == nil || !is.Same(i) { // on a disk that does not tell large letters from small ones, their names are one
		return fmt.Errorf("%s has the credentials of somebody else (%s): nobody else gets these; move it away, or choose another name", i.File, is)
	}
	if !newRevocations(folder, claims.Issuer).have(claims) {
		return ensureFile(i.File, content)
	}
	if b, err = content(); err != nil {
		return err
	}
	return replace(i.File, b)
}

// checkAccountKey returns an error for a key that is not that of the account in a folder.
func checkAccountKey(folder string, key nkeys.KeyPair) error {
	account, err := readAccount(filepath.Join(folder, accountFile))
	if err != nil {
		return err
	}
	public, err := key.PublicKey()
	if err == nil && public != account.Subject {
		err = fmt.Errorf("%s: it is not the key of the account in %s", filepath.Join(folder, accountKey), accountFile)
	}
	return err
}

// ensureKey returns the key in a file and its public part. It makes the key if the file is missing.
func ensureKey(path string, create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string, err error) {
	err = ensureFile(path, func() ([]byte, error) {
		key, err := create()
		if err != nil {
			return nil, err
		}
		return key.Seed()
	})
	if err != nil {
		return nil, "", err
	}
	if key, err = readKey(path); err != nil {
		return nil, "", err
	}
	public, err = key.PublicKey()
	return key, public, err
}

func readKey(path string) (nkeys.KeyPair, error) {
	seed, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func encode(c jwt.Claims, signer nkeys.KeyPair) ([]byte, error) {
	token, err := c.Encode(signer)
	return []byte(token), err
}

// ensureFile writes the result of content to a file unless the file exists. The file appears whole or not at all, and of several processes that
// write it at once one wins.
func ensureFile(path string, content func() ([]byte, error)) error {
	removeLeftovers(filepath.Dir(path))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, err := content()
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, b)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) //nolint:errcheck // it is in nobody's way
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// replace writes the file at path atomically, so that only its owner can read it. Its errors name that path, and are the same at each attempt.
func replace(path string, b []byte) error {
	_, err := put(path, b)
	return err
}

// put is replace, and returns what the file was before it got its name.
func put(path string, b []byte) (fs.FileInfo, error) {
	removeLeftovers(filepath.Dir(path))
	tmp, err := writeTemp(path, b)
	if err == nil {
		info, serr := os.Stat(tmp)
		if err = cmp.Or(serr, os.Rename(tmp, path)); err == nil {
			return info, nil
		}
		_ = os.Remove(tmp)
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	return nil, fmt.Errorf("write %s: %w", path, err)
}

// writeTemp writes a file beside path that only its owner can read.
func writeTemp(path string, b []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
