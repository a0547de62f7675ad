package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// Lives of links: of one that a person has just asked for, and of one in a banner, which may be read later.
const (
	LinkLife   = time.Minute
	BannerLife = 12 * time.Hour
)

// maxUsed bounds the used tokens that a Gate remembers. Beyond it, it redeems no more until some have expired.
const maxUsed = 100_000

// Gate redeems the tokens that [Token] makes with the same key, each once. A program that can read the key can so make links for a process that it is
// not. It is safe for concurrent use.
type Gate struct {
	key []byte
	now func() time.Time

	mu   sync.Mutex
	used map[string]time.Time // and when they expire
}

// NewGate returns a Gate with a key of at least 16 random bytes. now is nil for time.Now.
func NewGate(key []byte, now func() time.Time) *Gate {
	if now == nil {
		now = time.Now
	}
	return &Gate{key: key, now: now, used: make(map[string]time.Time)}
}

// Token makes a token that is good once, until then.
func Token(key []byte, until time.Time) string { return sign(key, until) }

// opens reports whether a token is good.
func (g *Gate) opens(token string) bool {
	until, ok := verify(g.key, token)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, used := g.used[token]
	return ok && !used && g.now().Before(until)
}

// Redeem reports whether a token is good, which it then is no longer.
func (g *Gate) Redeem(token string) bool {
	until, ok := verify(g.key, token)
	now := g.now()
	if !ok || !now.Before(until) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.used) >= maxUsed {
		for t, end := range g.used {
			if !now.Before(end) {
				delete(g.used, t)
			}
		}
	}
	if _, again := g.used[token]; again || len(g.used) >= maxUsed {
		return false
	}
	g.used[token] = until
	return true
}

// Prove returns what only who has the key can answer to a random word: who may get a bearer token shows with it to be the console that the key is of. It is
// no token of that key, whatever the word is.
func Prove(key []byte, word string) string {
	is := sha256.Sum256([]byte(word)) // longer than what sign has signed
	return base64.RawURLEncoding.EncodeToString(macOf(key, is[:]))
}

// Sizes of the parts of a signed value. They are small so that a link fits a line of a terminal; nobody tries many of 2^128 in its ten minutes.
const (
	timeSize  = 4 // seconds, until 2106
	nonceSize = 8
	macSize   = 16
)

// sign returns a random value that says until when it is good.
func sign(key []byte, until time.Time) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(until.Unix())) //nolint:gosec // after 1970
	b = append(b, make([]byte, nonceSize)...)
	rand.Read(b[timeSize:]) //nolint:errcheck // it never fails
	return base64.RawURLEncoding.EncodeToString(append(b, macOf(key, b)...))
}

// verify returns until when a value of sign is good, and whether it is one.
func verify(key []byte, value string) (until time.Time, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil || len(b) != timeSize+nonceSize+macSize {
		return time.Time{}, false
	}
	body, mac := b[:timeSize+nonceSize], b[timeSize+nonceSize:]
	if subtle.ConstantTimeCompare(mac, macOf(key, body)) != 1 {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint32(body)), 0), true
}

func macOf(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(b)
	return m.Sum(nil)[:macSize]
}
