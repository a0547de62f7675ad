package vertex

import (
	"context"
	"errors"
	"net"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// advice is what to do without working credentials.
const advice = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file"

// findCredentials finds the credentials of cfg. The SDK's search has no context: after ctx ends, it continues for some seconds.
func findCredentials(ctx context.Context, cfg *Config) (*auth.Credentials, error) {
	creds, err := google.Within(ctx, func() (*auth.Credentials, error) {
		return credentials.DetectDefault(&credentials.DetectOptions{
			Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"},
			//lint:ignore SA1019 it is the operator's own file, in any of Google's forms
			CredentialsFile:  cfg.CredentialsFile,
			UseSelfSignedJWT: !cfg.REST, // as the SDK does
		})
	})
	if err == nil || ctx.Err() != nil {
		return creds, err
	}
	return nil, &llm.Error{
		Kind: llm.ErrAuth, Provider: cfg.Name, Model: cfg.Model, Message: "no credentials: " + advice + ": " + err.Error(), Err: err,
	}
}

// watched returns creds that record in the call of a context which token it got, or the error.
func watched(creds *auth.Credentials) *auth.Credentials {
	return auth.NewCredentials(&auth.CredentialsOptions{
		TokenProvider:          tokens{creds},
		JSON:                   creds.JSON(),
		ProjectIDProvider:      auth.CredentialsPropertyFunc(creds.ProjectID),
		QuotaProjectIDProvider: auth.CredentialsPropertyFunc(creds.QuotaProjectID),
		UniverseDomainProvider: auth.CredentialsPropertyFunc(creds.UniverseDomain),
	})
}

type tokens struct{ auth.TokenProvider }

// Token implements [auth.TokenProvider]. The SDK's own makes callers wait for each other, whatever happens to their contexts.
func (t tokens) Token(ctx context.Context) (*auth.Token, error) {
	token, err := google.Within(ctx, func() (*auth.Token, error) { return t.TokenProvider.Token(ctx) })
	if k := callOf(ctx); k != nil {
		// gRPC converts all errors here to one code.
		k.tokenErr = err
		if token != nil {
			k.secret = token.Value
		}
	}
	return token, err
}

// kindOfTokenError distinguishes a denied token from a temporary failure.
func kindOfTokenError(err error) error {
	if answered, ok := errors.AsType[*auth.Error](err); ok && answered.Response != nil {
		if kind := llm.KindOfStatus(answered.Response.StatusCode); errors.Is(kind, llm.ErrUnavailable) || errors.Is(kind, llm.ErrRateLimited) {
			return llm.ErrUnavailable
		}
		return llm.ErrAuth
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return llm.ErrUnavailable
	}
	return llm.ErrAuth
}
