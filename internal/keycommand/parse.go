package keycommand

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Names of what is read of JSON, the preferred ones first: of az, azd, gcloud, OAuth 2.0's token responses, and kubectl's ExecCredential.
var (
	tokenNames  = []string{"accessToken", "access_token", "token"}
	expiryNames = []string{"expires_on", "expiresOn", "expirationTimestamp", "expiration", "token_expiry", "expiry"}
	innerNames  = []string{"status", "credential"} // objects that may have these
)

// parse returns the token in the output of a program that ran at now, and when it expires; zero if that is not known.
func parse(out string, now time.Time) (token string, expires time.Time, err error) {
	out = strings.TrimSpace(strings.TrimPrefix(out, "\ufeff"))
	token = out
	switch {
	case out == "":
		return "", expires, errors.New("it wrote nothing to its standard output")
	case out[0] == '{':
		if token, expires, err = parseObject(out, now); err != nil {
			return "", expires, err
		}
	case out[0] == '"': // JSON's form of a text, as `az … --query accessToken` writes it
		if json.Unmarshal([]byte(out), &token) != nil {
			return "", expires, errors.New("its standard output is no token")
		}
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", expires, errors.New("its standard output is neither one token alone nor JSON with one")
	}
	if expires.IsZero() {
		expires = expiryOf(token)
	}
	return token, expires, nil
}

// parseObject returns the token in an object, and when it expires.
func parseObject(out string, now time.Time) (token string, expires time.Time, err error) {
	var all map[string]any
	if json.Unmarshal([]byte(out), &all) != nil {
		return "", expires, errors.New("its standard output begins like JSON, but cannot be read")
	}
	objects := []map[string]any{all}
	for _, name := range innerNames {
		if inner, ok := all[name].(map[string]any); ok {
			objects = append(objects, inner)
		}
	}
	for _, o := range objects {
		for _, name := range tokenNames {
			if token, _ = o[name].(string); token != "" {
				return token, expiryIn(o, now), nil
			}
		}
	}
	return "", expires, errors.New("its JSON has no accessToken, access_token or token")
}

// expiryIn returns when the token of an object expires, or zero.
func expiryIn(o map[string]any, now time.Time) time.Time {
	for _, name := range expiryNames {
		if t := timeOf(o[name]); !t.IsZero() {
			return t
		}
	}
	if n, ok := number(o["expires_in"]); ok && n > 0 {
		return now.Add(time.Duration(min(n, maxLife.Seconds()) * float64(time.Second)))
	}
	return time.Time{}
}

// maxLife bounds the life of a token that an output tells: no number of it may overflow.
const maxLife = 10 * 365 * 24 * time.Hour

// az writes local times without a zone.
var layouts = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05"}

// timeOf reads a time: a Unix time in seconds or milliseconds, or a text. Without a zone it is a local time.
func timeOf(v any) time.Time {
	if n, ok := number(v); ok {
		return unix(n)
	}
	text, _ := v.(string)
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t
		}
	}
	return time.Time{}
}

// number returns a JSON number, or a text that is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && !math.IsNaN(n)
	}
	return 0, false
}

// unix returns the time of a number, or zero for one that cannot be meant.
func unix(n float64) time.Time {
	if n > 1e11 {
		n /= 1000
	}
	if n <= 0 || n > 1e11 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0)
}

// expiryOf returns when a JWT expires, whose signature is nobody's business here; zero for other tokens.
func expiryOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return time.Time{}
	}
	return unix(claims.Exp)
}
