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
	// maxAccount bounds the file of an account, in bytes. It names all that was ever revoked, in less than 100 bytes each.
	maxAccount = jwt.MaxTokenSize
	// maxSubscriptions bounds the subscriptions of one connection of an agent or a person; a client needs fewer. The server sends and buffers a copy
	// of an event for each matching subscription.
	maxSubscriptions = 64
	// maxMessage bounds a message of such a connection, in bytes, with its headers: the server buffers the beginning of a message until all of it has
	// arrived.
	maxMessage = transport.MaxPayload + 64<<10
)

// ErrExpired is returned by Read for credentials that have expired.
var ErrExpired = errors.New("the credentials have expired")

// Read returns the identity of the credentials in a file; nil, without an error, when they are valid but were not made by this package. For expired
// ones it returns the identity with ErrExpired. It refuses a file that everybody on the machine can read, since others may have copied the key, and
// a warning in a log might not be seen. Errors are one line and say what to do.
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

// Of returns the identity in the JWT of a connected user; nil when this package did not make it.
func Of(token string) *Identity {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return nil
	}
	return parseName(claims.Name)
}

// readSecret reads a file that not everybody can read. Groups may read it: containers provide secrets that way.
func readSecret(path string) ([]byte, error) {
	b, info, err := read(path, maxFile)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 { // there the bits mean nothing
		err = fmt.Errorf("everybody can read %s: `chmod 600 %[1]s`", path)
	}
	return b, err
}

// readFile reads a file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	b, _, err := read(path, maxFile)
	return b, err
}

// readAccountFile reads the file of an account.
func readAccountFile(path string) ([]byte, error) {
	b, _, err := read(path, maxAccount)
	return b, err
}

func read(path string, most int) ([]byte, fs.FileInfo, error) {
	b, info, err := document.ReadRegular(path, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	case errors.Is(err, document.ErrTooLarge):
		err = fmt.Errorf("%w: that is no key", err)
	}
	return b, info, err
}

// issue makes credentials for i, signed by the tenant's account; with a zero expires they do not expire.
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

// permit sets what the server lets i publish and subscribe to. A subject that is allowed here must be harmless with any headers and any reply
// subject.
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
			"cortex.v1.peer."+tenant+"."+transport.Escape(i.ID)) // by which instances of the agent know of each other
	case Person:
		p.Sub.Allow.Add("cortex.v1.live."+tenant+".>", "cortex.v1.cards."+tenant+".*")
	}
}
