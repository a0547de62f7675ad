package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

const (
	maxToken   = 16 << 10 // bytes
	maxGrant   = 128 << 10
	maxSecrets = 8 // tokens that are hidden in logs; older ones are not valid any more

	refreshTime = 30 * time.Second
	lockPoll    = 20 * time.Millisecond
	nearExpiry  = 30 * time.Second // a token that expires sooner is refreshed
)

// grant is what a login has given. Its secrets are only ever sent to the token endpoint that gave them: a server that names another authorization
// server gets nothing from the first.
type grant struct {
	Server       string           `json:"server"`
	Resource     string           `json:"resource,omitempty"` // what the tokens are for
	ClientID     string           `json:"client_id,omitempty"`
	ClientSecret string           `json:"client_secret,omitempty"`
	Own          bool             `json:"own,omitempty"` // the user has given ClientID
	TokenURL     string           `json:"token_url,omitempty"`
	Style        oauth2.AuthStyle `json:"auth_style,omitempty"`
	Scopes       []string         `json:"scopes,omitempty"`

	Access  string    `json:"access_token,omitempty"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"`

	Ended   string   `json:"ended,omitempty"`   // why there are no tokens any more
	Refusal *refusal `json:"refusal,omitempty"` // what the server wants of the next login
}

// refusal is a response that a login would change.
type refusal struct {
	Status       int      `json:"status"`
	Authenticate []string `json:"www_authenticate,omitempty"`
}

// response returns the response as the server gave it, without its body.
func (r *refusal) response() *http.Response {
	return &http.Response{StatusCode: r.Status, Header: http.Header{"Www-Authenticate": r.Authenticate}, Body: http.NoBody}
}

// take takes over a token.
func (g *grant) take(t *oauth2.Token) error {
	switch {
	case t.TokenType != "" && !strings.EqualFold(t.TokenType, "bearer"):
		return fmt.Errorf("the authorization server gives tokens of the type %.20q, and not bearer tokens", t.TokenType)
	case t.AccessToken == "" || len(t.AccessToken) > maxToken || len(t.RefreshToken) > maxToken:
		return fmt.Errorf("the authorization server gives a token of %d bytes: at most %d are allowed", max(len(t.AccessToken), len(t.RefreshToken)), maxToken)
	case strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the authorization server gives a token that does not fit into a header")
	}
	g.Access, g.Expiry, g.Ended, g.Refusal = t.AccessToken, t.Expiry, "", nil
	if t.RefreshToken != "" {
		g.Refresh = t.RefreshToken
	}
	if scope, _ := t.Extra("scope").(string); scope != "" {
		g.Scopes = strings.Fields(scope)
	}
	return nil
}

// valid reports whether the access token can be used, as far as is known.
func (g *grant) valid() bool {
	return g.Access != "" && (g.Expiry.IsZero() || time.Until(g.Expiry) > nearExpiry)
}

// login is the login at a server. The file of its grant is read for each request, since other processes refresh the tokens in it, log in and log out.
type login struct {
	path     string
	resource *url.URL // the server's URL without query, to which tokens belong
	client   *http.Client

	refreshing sync.WaitGroup

	mu     sync.Mutex
	secret []string // tokens seen last
	asked  bool     // the server has refused a request for want of a login
	ended  bool     // no refresh begins any more
}

func newLogin(dir string, server *url.URL) *login {
	resource := &url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path, RawPath: server.RawPath}
	sum := sha256.Sum256([]byte(resource.String()))
	return &login{
		path: filepath.Join(dir, "logins", hex.EncodeToString(sum[:16])+".json"), resource: resource, client: newAuthClient(server),
	}
}

// read returns the grant, which is empty if there is none.
func (l *login) read() (*grant, error) {
	g := &grant{}
	b, _, err := document.ReadRegular(l.path, maxGrant)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g, nil
	case err == nil:
		err = json.Unmarshal(b, g)
	}
	if err != nil {
		return nil, fmt.Errorf("the login cannot be read: %s: remove it, and %s", l.path, l.hint(nil))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range []string{g.Access, g.Refresh, g.ClientSecret} {
		if v != "" && !slices.Contains(l.secret, v) {
			l.secret = append(l.secret, v)
		}
	}
	l.secret = l.secret[max(0, len(l.secret)-maxSecrets):]
	return g, nil
}

// change changes the grant while no other process does.
func (l *login) change(ctx context.Context, f func(*grant) error) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	g, err := l.read()
	if err != nil {
		return err
	}
	if err := f(g); err != nil {
		return err
	}
	g.Server = l.resource.String()
	b, err := json.MarshalIndent(g, "", "  ")
	switch {
	case err == nil && len(b) > maxGrant:
		err = fmt.Errorf("it has %d bytes, and at most %d are allowed", len(b), maxGrant)
	case err == nil:
		err = taskfile.Write(l.path, b)
	}
	if err != nil {
		return fmt.Errorf("the login cannot be kept: %w", err)
	}
	_, err = l.read()
	return err
}

// lock waits until no other goroutine or process changes the grant.
func (l *login) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return nil, fmt.Errorf("no folder for logins: %w", err)
	}
	f, err := os.OpenFile(strings.TrimSuffix(l.path, ".json")+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("no folder for logins: %w", err)
	}
	for !taskfile.Lock(f) {
		if rest.For(ctx, lockPoll) != nil {
			_ = f.Close()
			return nil, context.Cause(ctx)
		}
	}
	return func() { _ = f.Close() }, nil
}

// remove forgets the grant. It reports whether there was one.
func (l *login) remove() (bool, error) {
	unlock, err := l.lock(context.Background())
	if err != nil {
		return false, err
	}
	defer unlock()
	g, err := l.read()
	had := err != nil || g.Access != "" || g.Refresh != ""
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return had, nil
}

var errAgentClosed = errors.New("the agent has ended")

// begin reports whether a refresh may begin, and counts it.
func (l *login) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.refreshing.Add(1)
	}
	return !l.ended
}

// wait waits for refreshes, which take a bounded time. None begins afterwards.
func (l *login) wait() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.refreshing.Wait()
}

// refused reports whether the server has refused a request for want of a login since [login.setRefused].
func (l *login) refused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *login) setRefused(asked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = asked
}

// secrets returns what must not appear in logs.
func (l *login) secrets() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.secret)
}

// hint says how to log in.
func (l *login) hint(g *grant) string {
	text := "run `cortex mcp login --url " + l.resource.String()
	if g != nil && g.Own {
		text += " --client-id " + g.ClientID
	}
	return text + "`"
}
