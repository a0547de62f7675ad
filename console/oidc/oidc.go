// Package oidc lets people log in to the console with an identity provider that speaks OpenID Connect, such as Keycloak, Entra ID, Okta or Google. It is
// for programs that serve a [console.Console]: a [Provider] is its [console.Login].
//
// It uses the code flow with PKCE and a nonce, and believes only what the provider has signed in the ID token, for this client, and not long ago.
package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

var _ console.Login = (*Provider)(nil)

// EmailClaim is the claim that names a person unless another one is configured. It counts only while the provider says that it has verified the address.
const EmailClaim = "email"

// personPrefix begins the id of every person who is not the only one.
const personPrefix = "user:"

// Bounds of an answer of the identity provider.
const (
	answerTime = 10 * time.Second
	maxAnswer  = 256 << 10 // bytes
	maxHeavy   = 1 << 20   // bytes that it takes when it is decoded, as far as that can be estimated
)

// Config says which provider is asked, and what its claims mean. Issuer and Client are required.
type Config struct {
	Issuer string // the URL of the provider, with TLS unless it is on this machine
	Client string // the id of the console at the provider
	Secret string // of the client; "": it is a public one, which PKCE is enough for
	Scopes []string
	// UserClaim names a person: theirs is the id "user:" and its value; "": EmailClaim.
	UserClaim string
	// Allow lets in who has one of these claims; empty: everybody whom the provider knows.
	Allow []Claim
	// Operator makes those operators who have one of these claims.
	Operator []Claim
	HTTP     *http.Client     // nil: one with timeouts. Of an answer it reads a bounded number of bytes either way.
	Now      func() time.Time // nil: time.Now
}

// Claim is a claim with one value. A claim that is a list has each of its values.
type Claim struct{ Name, Value string }

// ParseClaim parses NAME=VALUE.
func ParseClaim(s string) (Claim, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" || value == "" {
		return Claim{}, fmt.Errorf("%q: want CLAIM=VALUE, such as groups=cortex", s)
	}
	return Claim{name, value}, nil
}

// Provider is an identity provider. It is safe for concurrent use.
type Provider struct {
	cfg Config

	asking singleflight.Group

	mu    sync.Mutex
	found *oidc.Provider
}

// New returns a Provider. It is asked what it can when the first person logs in, so that Cortex starts without it.
func New(cfg Config) (*Provider, error) {
	at, err := url.Parse(cfg.Issuer)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return nil, fmt.Errorf("issuer %q: want a URL such as https://login.example.com/realms/main", cfg.Issuer)
	case at.Scheme == "http" && !publicnet.IsLoopback(at.Hostname()):
		return nil, fmt.Errorf("issuer %q: want https: who logs in could be anybody without TLS", cfg.Issuer)
	case cfg.Client == "":
		return nil, errors.New("the client has no id: it is what the provider calls the console")
	}
	cfg.UserClaim = cmp.Or(cfg.UserClaim, EmailClaim)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: httpclient.NewTransport(0), Timeout: answerTime}
	}
	own := *cfg.HTTP
	own.Transport = bounded{cmp.Or(own.Transport, http.DefaultTransport)}
	cfg.HTTP = &own
	return &Provider{cfg: cfg}, nil
}

// Name implements [console.Login]: the host of the provider.
func (p *Provider) Name() string {
	at, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return p.cfg.Issuer
	}
	return at.Host
}

// provider returns what the provider says of itself. While it is not known, it is asked once for all who wait for it.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	if found := p.known(); found != nil {
		return found, nil
	}
	asked := p.asking.DoChan("", func() (any, error) {
		if found := p.known(); found != nil { // since a moment ago
			return found, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.cfg.HTTP), p.cfg.Issuer)
		if err != nil {
			return nil, fmt.Errorf("%w: %s cannot be asked: %w", transport.ErrUnavailable, p.Name(), err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.found = found
		return found, nil
	})
	select {
	case r := <-asked:
		found, _ := r.Val.(*oidc.Provider)
		return found, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// known returns what the provider has said of itself; nil when it was not asked.
func (p *Provider) known() *oidc.Provider {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found
}

func (p *Provider) oauth(at *oidc.Provider, callback string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.Client, ClientSecret: p.cfg.Secret, Endpoint: at.Endpoint(), RedirectURL: callback,
		Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// Start implements [console.Login].
func (p *Provider) Start(ctx context.Context, f *console.Flow, callback string) (string, error) {
	at, err := p.provider(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(at, callback).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), nil
}

// Finish implements [console.Login].
func (p *Provider) Finish(ctx context.Context, f *console.Flow, callback, code string) (console.Person, error) {
	var nobody console.Person
	at, err := p.provider(ctx)
	if err != nil {
		return nobody, err
	}
	ctx = oidc.ClientContext(ctx, p.cfg.HTTP)
	tokens, err := p.oauth(at, callback).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text has what the provider answered
		return nobody, fmt.Errorf("%s does not accept the code: %s", p.Name(), prompt.Clean(refused.ErrorCode+" "+refused.ErrorDescription, 200))
	}
	if err != nil {
		return nobody, fmt.Errorf("%w: %s cannot be asked: %w", transport.ErrUnavailable, p.Name(), err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nobody, fmt.Errorf("%s has sent no ID token", p.Name())
	}
	if err := checkToken(raw); err != nil {
		return nobody, fmt.Errorf("the ID token of %s is not valid: %w", p.Name(), err)
	}
	token, err := at.VerifierContext(ctx, &oidc.Config{ClientID: p.cfg.Client, Now: p.cfg.Now}).Verify(ctx, raw)
	if err != nil {
		return nobody, fmt.Errorf("the ID token of %s is not valid: %w", p.Name(), err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nobody, fmt.Errorf("the ID token of %s cannot be read: %w", p.Name(), err)
	}
	if f.Nonce == "" || token.Nonce != f.Nonce {
		return nobody, fmt.Errorf("the ID token of %s is for another login", p.Name())
	}
	if by, ok := claims["azp"]; (ok || len(token.Audience) > 1) && by != p.cfg.Client {
		return nobody, fmt.Errorf("the ID token of %s was issued to another client", p.Name())
	}
	return p.person(claims)
}

// person maps claims to a person of Cortex.
func (p *Provider) person(claims map[string]any) (who console.Person, err error) {
	name, _ := claims[p.cfg.UserClaim].(string)
	if p.cfg.UserClaim == EmailClaim {
		if verified := claims["email_verified"]; verified != true && verified != "true" {
			return who, fmt.Errorf("%s has not verified your email address, so it cannot say who you are", p.Name())
		}
		name = strings.Map(small, name) // addresses that differ by it are the same to people, and to nearly all servers
	}
	if name == "" {
		return who, fmt.Errorf("%s does not say your %s", p.Name(), p.cfg.UserClaim)
	}
	who.User = personPrefix + name
	if err := transport.CheckID(who.User); err != nil {
		return console.Person{}, fmt.Errorf("your %s at %s cannot be a name here: it %w", p.cfg.UserClaim, p.Name(), err)
	}
	if err := transport.CheckPerson(name); err != nil {
		return console.Person{}, fmt.Errorf("your %s at %s cannot be a name here: %w", p.cfg.UserClaim, p.Name(), err)
	}
	if len(p.cfg.Allow) > 0 && !slices.ContainsFunc(p.cfg.Allow, func(c Claim) bool { return c.in(claims) }) {
		return console.Person{}, fmt.Errorf("%s knows you as %s, but you may not use this Cortex: ask who runs it", p.Name(), prompt.Clean(name, 80))
	}
	who.Operator = slices.ContainsFunc(p.cfg.Operator, func(c Claim) bool { return c.in(claims) })
	return who, nil
}

// small returns the small letter of a capital. A letter that is not the capital of its small one stays: the Kelvin sign and the İ of Turkish would become a
// plain k and i, and who has an address with these would be the person who has the plain one.
func small(r rune) rune {
	if s := unicode.ToLower(r); unicode.ToUpper(s) == r {
		return s
	}
	return r
}

// in reports whether claims have a claim with its value.
func (c Claim) in(claims map[string]any) bool {
	switch v := claims[c.Name].(type) {
	case string:
		return v == c.Value
	case bool:
		return v && c.Value == "true"
	case []any:
		return slices.ContainsFunc(v, func(one any) bool { return one == c.Value })
	}
	return false
}
