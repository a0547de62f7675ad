// Package endpoint has what the clients of endpoints with keys in HTTP headers have in common.
package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
)

// CheckHeaders returns an error when a key, or a header, cannot be sent.
func CheckHeaders(key string, headers map[string]string) error {
	if !headerText(key) {
		return errors.New("key: it has a line break, or another character that no header can have")
	}
	for name, value := range headers {
		if name == "" || strings.ContainsAny(name, " \t:") || !headerText(name) || !headerText(value) {
			return fmt.Errorf("header %q: its name or its value cannot be sent", name)
		}
	}
	return nil
}

// CheckToken returns an error when a token would be sent beside another credential.
func CheckToken(token Token, key string, headers map[string]string) error {
	if token == nil {
		return nil
	}
	if key != "" {
		return errors.New("token: it is sent in place of a key: leave the key out")
	}
	for name := range headers {
		if strings.EqualFold(name, "Authorization") {
			return errors.New("token: it is sent as Authorization, which is set as a header, too: leave one of them out")
		}
	}
	return nil
}

// headerText reports whether s is a valid value of a header. net/http would also reject it, but with an error that repeats it.
func headerText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// minSecret is the length below which a text is not treated as a secret: replacing it would make errors unreadable.
const minSecret = 4

// Secrets returns what errors must not show: the key, and the values of headers, which often have a scheme before the secret.
func Secrets(key string, headers map[string]string) []string {
	secrets := []string{key}
	for _, value := range headers {
		secrets = append(append(secrets, value), strings.Fields(value)...)
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool {
		return len(s) < minSecret || strings.EqualFold(s, "Bearer") || strings.EqualFold(s, "Basic")
	})
	// The longest first, so that none is cut in two by a part of it.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(secrets)
}

// HTTPClient returns a copy of given, or a default client with at most this many connections, that follows no redirects.
func HTTPClient(given *http.Client, most int) *http.Client {
	c := &http.Client{Transport: httpclient.NewTransport(most)}
	if given != nil {
		copied := *given
		c = &copied
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}
