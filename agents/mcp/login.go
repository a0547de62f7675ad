package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/cortex-orchestrator/cortex/internal/publicnet"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	loginTime   = 10 * time.Minute // for the user to log in
	loginRounds = 3                // authorizations of one login: some servers ask for more rights one after the other
)

// LoginOptions configures [Login].
type LoginOptions struct {
	// Dir is where logins are kept, the Dir of [Options].
	Dir string
	// Version is this program's version, which servers are told.
	Version string
	// ClientID is what the authorization server knows this program by; an https URL is that of a client id metadata document. "" registers
	// the program.
	ClientID string
	// ClientSecret belongs to ClientID; "" is none.
	ClientSecret string
	// Port is the port of 127.0.0.1 to which the browser returns; 0 is any free one.
	Port int
	// Show shows the user the URL to open. It must not block. Required.
	Show func(url string)
}

var (
	// ErrNoLogin means that a server works without a login.
	ErrNoLogin = errors.New("the server asks for no login")
	// ErrLoggedIn means that there is a login already that the server accepts.
	ErrLoggedIn = errors.New("there is a login already")
)

// Login logs the user in at a server that wants OAuth, and keeps the tokens for the agents of the same Dir. It blocks until the user has logged in,
// for at most ten minutes.
//
// Whom to ask, and how, the server says: the metadata of the resource name an authorization server, whose metadata name its endpoints. They are
// strangers' words. So no redirect to another host is followed, no address in a private network is asked unless the server itself is in one, and
// nothing is sent without encryption but to this machine.
func Login(ctx context.Context, s *Server, o *LoginOptions) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	of := *s
	if err := of.openLogin(o.Dir); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	of.secret = append(slices.Clone(of.secret), o.ClientSecret)
	ctx, cancel := context.WithTimeoutCause(ctx, loginTime, fmt.Errorf("nobody has logged in within %v", loginTime))
	defer cancel()
	c, err := listen(ctx, o.Port)
	if err != nil {
		return err
	}
	defer c.close()
	if err := of.login.authorize(ctx, &of, o, c); err != nil {
		return fmt.Errorf("%s: %w", s.Name, cmp.Or(context.Cause(ctx), err))
	}
	return nil
}

// Logout forgets the login at a server. It reports whether there was one. The authorization server is not told.
func Logout(s *Server, dir string) (bool, error) {
	of := *s
	if err := of.openLogin(dir); err != nil {
		return false, fmt.Errorf("%s: %w", s.Name, err)
	}
	return of.login.remove()
}

// openLogin sets the server's login; it returns an error if the server cannot have one.
func (s *Server) openLogin(dir string) error {
	if s.URL == "" {
		return errors.New("it is a program: only a server at a URL has a login")
	}
	for k := range s.Headers {
		if http.CanonicalHeaderKey(k) == "Authorization" {
			return errors.New("its headers have an Authorization, or " + TokenVar + " is set: that is used, and no login")
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return errors.New("url: want one such as https://host/mcp")
	}
	if u.Scheme != "https" && !publicnet.IsLoopback(u.Hostname()) {
		return errors.New("a login would be sent over http for everybody to read: use https")
	}
	s.login = newLogin(dir, u)
	return nil
}

// authorize has the server authorize until it is content.
func (l *login) authorize(ctx context.Context, s *Server, o *LoginOptions, c *callback) error {
	h, err := auth.NewAuthorizationCodeHandler(l.handler(o, c))
	if err != nil {
		return err
	}
	for n := range loginRounds {
		err := try(ctx, s, o.Version)
		g, readErr := l.read()
		switch {
		case readErr != nil:
			return readErr
		case err != nil && !l.refused():
			return err
		case err == nil && g.Refusal == nil && n > 0:
			return nil
		case err == nil && g.Refusal == nil && g.Access != "":
			return ErrLoggedIn
		case err == nil && g.Refusal == nil:
			return ErrNoLogin
		case n > 0 && g.Refusal != nil && g.Refusal.Status == http.StatusUnauthorized:
			return errors.New("it does not accept the token that it had the authorization server give")
		}
		if err := h.Authorize(ctx, &http.Request{Method: http.MethodPost, URL: l.resource}, g.Refusal.response()); err != nil {
			return errors.New("no login: " + s.hide(plainAuth(err).Error()))
		}
	}
	return errors.New("it wants more rights after each login")
}

// try connects to the server and lists its tools.
func try(ctx context.Context, s *Server, version string) error {
	s.login.setRefused(false)
	var failed error // the first one says most
	for n := range 2 {
		server, revision := s.attempt(n)
		c, err := connect(ctx, server, revision, &Options{Version: version}, slog.New(slog.DiscardHandler), func() {})
		if err == nil {
			_, err = c.tools(ctx, func(*sdk.Tool) bool { return true })
			c.end()
		}
		if err == nil || s.login.refused() {
			return err
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// handler configures the SDK's part of a login: discovery, registration, the code with PKCE, and the exchange for a token.
func (l *login) handler(o *LoginOptions, c *callback) *auth.AuthorizationCodeHandlerConfig {
	cfg := &auth.AuthorizationCodeHandlerConfig{RedirectURL: c.url, RequestRefreshToken: true, Client: l.client}
	switch {
	case o.ClientID == "":
		cfg.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Cortex", RedirectURIs: []string{c.url}, GrantTypes: []string{"authorization_code", "refresh_token"},
			ResponseTypes: []string{"code"}, SoftwareVersion: o.Version,
		}}
	case strings.HasPrefix(o.ClientID, "https://"):
		cfg.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: o.ClientID}
	default:
		cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: o.ClientID}
		if o.ClientSecret != "" {
			cfg.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: o.ClientSecret}
		}
	}
	resource := ""
	cfg.AuthorizationCodeFetcher = func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		u, err := url.Parse(args.URL)
		if err != nil || len(args.URL) > maxToken || strings.ContainsFunc(args.URL, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("the address to log in at is not one")
		}
		resource = u.Query().Get("resource")
		return c.wait(ctx, u.Query().Get("state"), func() { o.Show(args.URL) })
	}
	cfg.ScopeFilter = func(asked []string) []string {
		g, err := l.read()
		if err != nil || g.Refusal == nil || g.Refusal.Status != http.StatusForbidden {
			return asked
		}
		all := slices.Clone(g.Scopes) // more rights are wanted beside these
		for _, s := range asked {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
		return all
	}
	cfg.NewTokenSource = func(ctx context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
		g := &grant{
			Server: l.resource.String(), Resource: resource, ClientID: c.ClientID, ClientSecret: c.ClientSecret, Own: o.ClientID != "",
			TokenURL: c.Endpoint.TokenURL, Style: c.Endpoint.AuthStyle, Scopes: c.Scopes,
		}
		if err := g.take(t); err != nil {
			return nil, err
		}
		err := l.change(ctx, func(was *grant) error {
			*was = *g
			return nil
		})
		return oauth2.StaticTokenSource(t), err
	}
	return cfg
}

// plainAuth returns an error of a login for the user: bounded, printable, and without what an authorization server has answered where that may be a
// secret.
func plainAuth(err error) error {
	if answered, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		if answered.ErrorCode == "" {
			return fmt.Errorf("the authorization server says %s", answered.Response.Status)
		}
		return errors.New(printable("the authorization server says " + strings.TrimSpace(answered.ErrorCode+" "+answered.ErrorDescription)))
	}
	text := plainURL(err).Error()
	if before, _, found := strings.Cut(text, "registration response: "); found {
		text = before + "registration response that cannot be read"
	}
	return errors.New(printable(text))
}

// printable returns a stranger's words for an error.
func printable(text string) string {
	return shorten.To(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), 500)
}
