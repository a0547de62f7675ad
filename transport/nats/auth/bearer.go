package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// bearerPurpose is signed in a bearer token, so that the signature is of no use elsewhere. A client of NATS signs whatever text its server names, so that a
// server could else have tokens made. Clients whose texts are UTF-8 have none with the first byte; nats.c signs any bytes, but only those before a zero.
// earlierPurpose is a text, and what tokens were signed with before.
const (
	bearerPurpose  = "\xff\x00cortex bearer token 2\n"
	earlierPurpose = "cortex bearer token\n"
)

// maxBearer bounds a bearer token, in bytes.
const maxBearer = 12 << 10

// ErrBearer is returned by Bearer.Identify for tokens that are not valid. Its text is one line for whoever shows the token.
var ErrBearer = errors.New("the bearer token is not valid here: `cortex auth token` makes one of the credentials of a person or an agent")

// ErrEarlier is returned by Bearer.Identify for tokens that an earlier Cortex has made. It wraps [ErrBearer], and its text is one line as well.
var ErrEarlier error = earlier{}

type earlier struct{}

func (earlier) Error() string {
	return "the bearer token is of an earlier Cortex, and valid no more: make it again with `cortex auth token NAME`"
}

func (earlier) Unwrap() error { return ErrBearer }

// BearerToken returns a token that proves over HTTP for whom the credentials in a file are: their JWT and a signature with their key. It always is
// the same for the same credentials, and is valid as long as they are. Who knows the token cannot connect to the NATS server with it.
func BearerToken(file string) (string, error) {
	if _, err := Read(file); err != nil {
		return "", err
	}
	b, err := readSecret(file)
	if err != nil {
		return "", err
	}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return "", err
	}
	key, err := jwt.ParseDecoratedUserNKey(b)
	if err != nil {
		return "", err
	}
	defer key.Wipe()
	sig, err := key.Sign([]byte(bearerPurpose + token))
	if err != nil {
		return "", err
	}
	return token + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// Bearer verifies the bearer tokens of the people and agents of one tenant.
type Bearer struct {
	account, tenant string
	revoked         *revocations
}

// NewBearer returns a Bearer for the account that issued the credentials in a file, such as those of the tenant's orchestrator. What was revoked is known
// from the file of the account beside them, which is read now and whenever it has changed; without that file nothing is.
func NewBearer(file string) (*Bearer, error) {
	i, err := Read(file)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, fmt.Errorf("%s: these credentials are not of `cortex auth`, so that nobody can be told by a bearer token", file)
	}
	claims, err := userClaims(file)
	if err != nil {
		return nil, err
	}
	return &Bearer{claims.Issuer, i.Tenant, newRevocations(filepath.Dir(file), claims.Issuer)}, nil
}

// Key returns a text about the credentials that a token was made of, which [Bearer.Holds] takes: their public key, and, if they expire, a dot and when, in
// seconds since 1970; "" for no token. It is for tokens that Identify has accepted.
func (b *Bearer) Key(token string) string {
	claims, err := jwt.DecodeUserClaims(token[:max(strings.LastIndexByte(token, '.'), 0)])
	if err != nil {
		return ""
	}
	if claims.Expires != 0 {
		return claims.Subject + "." + strconv.FormatInt(claims.Expires, 10)
	}
	return claims.Subject
}

// Holds reports whether the credentials with a key, which held at a time, were not revoked since and have not expired. A key that an older build has stored
// does not say when it expires.
func (b *Bearer) Holds(key string, then time.Time) bool {
	key, until, expires := strings.Cut(key, ".")
	if expires {
		end, err := strconv.ParseInt(until, 10, 64)
		if err != nil || !time.Now().Before(time.Unix(end, 0)) {
			return false
		}
	}
	used := &jwt.UserClaims{ClaimsData: jwt.ClaimsData{Subject: key, Issuer: b.account, IssuedAt: then.Unix()}}
	return !b.revoked.have(used)
}

// Blind returns why it is not known which credentials were revoked, nil if it is: the account's file says so, which lies beside the orchestrator's
// credentials in the folder of keys, and perhaps not beside a copy of them.
func (b *Bearer) Blind() error {
	account, err := readAccount(b.revoked.path)
	if err == nil && account.Subject != b.account {
		err = fmt.Errorf("%s: it is of another account than the credentials", b.revoked.path)
	}
	return err
}

// Identify returns the person or agent that a token is for, or an error that wraps ErrBearer, ErrExpired or ErrRevoked.
func (b *Bearer) Identify(token string) (*Identity, error) {
	cut := strings.LastIndexByte(token, '.')
	if len(token) > maxBearer || cut < 0 {
		return nil, ErrBearer
	}
	sig, err := base64.RawURLEncoding.DecodeString(token[cut+1:])
	if err != nil {
		return nil, ErrBearer
	}
	claims, err := jwt.DecodeUserClaims(token[:cut]) // verifies the issuer's signature
	if err != nil || claims.Issuer != b.account || claims.IssuerAccount != "" {
		return nil, ErrBearer
	}
	key, err := nkeys.FromPublicKey(claims.Subject)
	if err != nil {
		return nil, ErrBearer
	}
	signed := func(purpose string) bool { return key.Verify([]byte(purpose+token[:cut]), sig) == nil }
	old := !signed(bearerPurpose)
	if old && !signed(earlierPurpose) {
		return nil, ErrBearer
	}
	i := parseName(claims.Name)
	if !i.Limited() || i.Tenant != b.tenant {
		return nil, ErrBearer
	}
	if claims.Expires != 0 && !time.Now().Before(time.Unix(claims.Expires, 0)) {
		return nil, ErrExpired
	}
	if b.revoked.have(claims) {
		return nil, ErrRevoked
	}
	if old {
		return nil, ErrEarlier
	}
	return i, nil
}
