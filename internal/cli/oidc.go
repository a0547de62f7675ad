package cli

import (
	"net/url"
	"slices"

	"github.com/spf13/pflag"

	"github.com/cortex-orchestrator/cortex/console"
	"github.com/cortex-orchestrator/cortex/console/oidc"
	"github.com/cortex-orchestrator/cortex/internal/llms"
)

// everybody is the value of --oidc-allow for all whom the identity provider knows.
const everybody = "everybody"

// oidcFlags say by which identity provider people log in to the console.
type oidcFlags struct {
	issuer, client, secretFile string
	user                       string
	allow, operator, scopes    []string
	url                        string // of the console
}

func (o *oidcFlags) add(f *pflag.FlagSet) {
	f.StringVar(&o.issuer, "oidc-issuer", "", "`URL`: identity provider (OpenID Connect) with which people log in to the console; needs --auth")
	f.StringVar(&o.client, "oidc-client", "", "`ID`: what the provider calls the console; its redirect URI there is the console's address with /login/callback")
	f.StringVar(&o.secretFile, "oidc-secret-file", "", "`FILE`: secret of the client; without it, the client is a public one")
	f.StringVar(&o.user, "oidc-user", oidc.EmailClaim, "`CLAIM`: claim that names a person")
	f.StringSliceVar(&o.allow, "oidc-allow", nil, "`CLAIM=VALUE`: who may log in, such as groups=cortex; one of several is enough; everybody: all whom the provider knows")
	f.StringSliceVar(&o.operator, "oidc-operator", nil, "`CLAIM=VALUE`: who is an operator of the console")
	f.StringSliceVar(&o.scopes, "oidc-scope", []string{"email", "profile"}, "`SCOPE`: what the provider is asked for beside openid, such as groups")
	f.StringVar(&o.url, "console-url", "", "`URL`: the console's address for browsers, where a proxy is before it")
	names := []string{"oidc-issuer", "oidc-client", "oidc-secret-file", "oidc-user", "oidc-allow", "oidc-operator", "oidc-scope", "console-url"}
	setting(f, names...)
	group(f, groupKeep, names...)
}

// login returns the provider; nil without one.
func (o *oidcFlags) login(s *settings) (console.Login, error) {
	if o.url != "" {
		if at, err := url.Parse(o.url); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.Path != "" && at.Path != "/" || at.RawQuery != "" {
			return nil, s.wrong("console-url", " %q: want a URL without a path, such as https://cortex.example.com", o.url)
		}
	}
	if o.issuer == "" {
		for name, given := range map[string]bool{"oidc-client": o.client != "", "oidc-secret-file": o.secretFile != "", "oidc-allow": len(o.allow) > 0, "oidc-operator": len(o.operator) > 0} {
			if given {
				return nil, s.wrong(name, ": give --oidc-issuer as well")
			}
		}
		return nil, nil
	}
	if s.creds == "" && (s.node.auth == "" || s.node.auth == none) {
		return nil, s.wrong("oidc-issuer", ": without --auth whoever reaches Cortex may do everything, and nobody logs in: `cortex auth init` makes keys")
	}
	if o.client == "" {
		return nil, usagef("--oidc-client is missing: the id that the provider has given to the console")
	}
	if len(o.allow) == 0 { // some providers know everybody
		return nil, usagef("--oidc-allow is missing: who may log in, such as --oidc-allow groups=cortex; --oidc-allow everybody lets in all whom the provider knows")
	}
	if slices.Equal(o.allow, []string{everybody}) {
		o.allow = nil
	}
	cfg := oidc.Config{Issuer: o.issuer, Client: o.client, UserClaim: o.user, Scopes: o.scopes}
	var err error
	if o.secretFile != "" {
		if cfg.Secret, err = llms.ReadSecret(o.secretFile); err != nil {
			return nil, s.wrong("oidc-secret-file", ": %w", err)
		}
	}
	for _, one := range []struct {
		flag string
		from []string
		to   *[]oidc.Claim
	}{{"oidc-allow", o.allow, &cfg.Allow}, {"oidc-operator", o.operator, &cfg.Operator}} {
		for _, text := range one.from {
			c, err := oidc.ParseClaim(text)
			if err != nil {
				return nil, s.wrong(one.flag, " %w", err)
			}
			*one.to = append(*one.to, c)
		}
	}
	p, err := oidc.New(cfg)
	if err != nil {
		return nil, s.wrong("oidc-issuer", ": %w", err)
	}
	return p, nil
}
