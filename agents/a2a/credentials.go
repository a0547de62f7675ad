package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
)

// maxCredentials bounds a file of credentials, in bytes.
const maxCredentials = 1 << 20

// TokenVar is the environment variable with the bearer token for an agent that is given by its URL.
const TokenVar = "A2A_TOKEN"

// Credentials are headers of requests, by the origin that gets them.
type Credentials struct {
	by map[string]http.Header
}

// BearerToken returns credentials of one token for the origin of a URL.
func BearerToken(address, token string) (*Credentials, error) {
	c := &Credentials{by: map[string]http.Header{}}
	return c, c.add(address, map[string]string{"Authorization": "Bearer " + token})
}

// ReadCredentials reads a file, YAML or JSON, that has the headers for each origin:
//
//	https://agents.example.com:
//	  Authorization: Bearer s3cret
func ReadCredentials(ctx context.Context, path string) (*Credentials, error) {
	b, err := document.Read(ctx, path, maxCredentials)
	if err != nil {
		return nil, err
	}
	d, err := document.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var by map[string]map[string]string
	if err := json.Unmarshal(d.JSON, &by); err != nil || len(by) == 0 {
		return nil, fmt.Errorf("%s: want origins such as https://example.com, each with headers such as `Authorization: Bearer TOKEN`", path)
	}
	c := &Credentials{by: map[string]http.Header{}}
	for address, headers := range by {
		if err := c.add(address, headers); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return c, nil
}

func (c *Credentials) add(address string, headers map[string]string) error {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%.100q: want an origin such as https://example.com", address)
	}
	if u.Scheme == "http" && !publicnet.IsLoopback(u.Hostname()) {
		return fmt.Errorf("%s: credentials are not sent without TLS: want https", publicnet.Origin(u))
	}
	h := http.Header{}
	for name, value := range headers {
		if name == "" || strings.ContainsFunc(name, isNoToken) || strings.ContainsFunc(value, unicode.IsControl) {
			return fmt.Errorf("%s: %.40q is no name of a header with a value", publicnet.Origin(u), name)
		}
		h.Set(name, value)
	}
	c.by[publicnet.Origin(u)] = h
	return nil
}

// of returns the headers for an origin; nil is none.
func (c *Credentials) of(origin string) http.Header {
	if c == nil {
		return nil
	}
	return c.by[origin]
}

// hide replaces the values in text.
func (c *Credentials) hide(text string) string {
	if c == nil {
		return text
	}
	for _, headers := range c.by {
		for _, values := range headers {
			for _, v := range slices.Concat(values, strings.Fields(strings.Join(values, " "))) {
				if len(v) >= minSecret {
					text = strings.ReplaceAll(text, v, "***")
				}
			}
		}
	}
	return text
}

// minSecret is the minimum length of values that hide replaces; shorter ones occur in ordinary words.
const minSecret = 7

// isNoToken reports whether a character does not belong into the name of a header.
func isNoToken(r rune) bool {
	return r != '-' && r != '_' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
}
