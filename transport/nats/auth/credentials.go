package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	// maxFile bounds a file of keys, in bytes.
	maxFile = 64 << 10
	// maxSubscriptions is how many a connection of an agent or a person may have: more than a client needs. An event goes to each that
	// matches it, and waits there as often.
	maxSubscriptions = 64
	// maxMessage bounds what a connection of theirs sends at once, in bytes, with its headers: the server keeps the beginning of what has not
	// arrived as a whole.
	maxMessage = transport.MaxPayload + 64<<10
)

// ErrExpired is returned by Read for credentials whose time is over.
var ErrExpired = errors.New("the credentials have expired")

// Read returns who the credentials in a file are for: nil, without an error, when they are good but were not made by this package.
// A file that everybody on the machine can read is refused: a key that others may have copied is none, and a warning in a
// log would be read by nobody. Errors are one line and say what to do.
func Read(file string) (*Identity, error) {
	b, err := readSecret(file)
	if err != nil {
		return nil, err
	}
	none := fmt.Errorf("%s: these are no NATS credentials: `cortex auth add` makes some", file)
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return nil, none
	}
	key, err := jwt.ParseDecoratedUserNKey(b)
	if err != nil {
		return nil, none
	}
	defer key.Wipe()
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil, none
	}
	i := parseName(claims.Name)
	if i != nil {
		i.File = file
	}
	if claims.Expires == 0 {
		return i, nil
	}
	end := time.Unix(claims.Expires, 0)
	if i != nil {
		i.Expires = end
	}
	if !time.Now().Before(end) {
		return i, fmt.Errorf("%s: %w on %s: make new ones", file, ErrExpired, end.UTC().Format(time.RFC3339))
	}
	return i, nil
}

// Of returns whom a token is for, with which somebody was let in; nil when this package did not make it.
func Of(token string) *Identity {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil
	}
	return parseName(claims.Name)
}

// readSecret reads a file that not everybody can read. Groups may: it is how containers hand out secrets.
func readSecret(path string) ([]byte, error) {
	b, info, err := read(path)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 { // there the bits say nothing
		err = fmt.Errorf("everybody can read %s: `chmod 600 %[1]s`", path)
	}
	return b, err
}

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	b, _, err := read(path)
	return b, err
}

func read(path string) ([]byte, fs.FileInfo, error) {
	b, info, err := document.ReadRegular(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	case errors.Is(err, document.ErrTooLarge):
		err = fmt.Errorf("%w: that is no key", err)
	}
	return b, info, err
}

// issue makes credentials for i, signed by the tenant's account; the zero expires is never.
func issue(i *Identity, account nkeys.KeyPair, expires time.Time) ([]byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer key.Wipe()
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = i.name()
	permit(&claims.Permissions, i)
	if i.Limited() {
		claims.Limits.Subs, claims.Limits.Payload = maxSubscriptions, maxMessage
	}
	if !expires.IsZero() {
		claims.Expires = expires.Unix()
	}
	token, err := claims.Encode(account)
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(token, seed)
}

// permit writes what the server lets i publish and subscribe. Whatever is allowed here must be harmless whatever its headers
// and wherever its answer is asked to go.
func permit(p *jwt.Permissions, i *Identity) {
	if !i.Limited() {
		return
	}
	tenant := transport.Escape(i.Tenant)
	p.Pub.Allow.Add(Gateway(i) + ">")
	p.Sub.Allow.Add(Replies(i) + ".>")
	switch i.Role {
	case Agent:
		p.Sub.Allow.Add("cortex.v1.live."+tenant+"."+transport.Escape(transport.Control(i.Tenant, i.ID).ID)+".*",
			"cortex.v1.peer."+tenant+"."+transport.Escape(i.ID)) // by which instances of it know of each other
	case Person:
		p.Sub.Allow.Add("cortex.v1.live."+tenant+".>", "cortex.v1.cards."+tenant+".*")
	}
}
