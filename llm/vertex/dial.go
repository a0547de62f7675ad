package vertex

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/vertexai/genai"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/cortex-orchestrator/cortex/internal/httpclient"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// places matches valid locations. A location becomes part of the name of the host that gets the credentials.
var places = regexp.MustCompile(`^[a-z0-9-]+$`)

// Dial returns a client. ctx bounds the search for credentials, which reads files and, without any, checks whether this is a machine of Google Cloud;
// the endpoint is not contacted. Missing or unreadable credentials are an [llm.ErrAuth]. Close the client after use.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	cfg.Name, cfg.Location = cmp.Or(cfg.Name, "vertex"), cmp.Or(cfg.Location, "global")
	cfg.Structured = cmp.Or(cfg.Structured, llm.StructuredSchema)
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}
	if cfg.Plaintext {
		return dial(ctx, cfg, nil, nil)
	}
	creds, err := findCredentials(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	return dial(ctx, cfg, creds, nil)
}

func (cfg *Config) check() error {
	modes := []llm.Structured{llm.StructuredSchema, llm.StructuredTools, llm.StructuredObject, llm.StructuredPrompt}
	switch {
	case cfg.Project == "":
		return errors.New("no project is set")
	case cfg.Model == "":
		return errors.New("no model is set")
	case !places.MatchString(cfg.Location):
		return fmt.Errorf("%q is not a location; they look like \"global\" and \"europe-west4\"", cfg.Location)
	case !slices.Contains(modes, cfg.Structured):
		return fmt.Errorf("%q is not a way to structured output; there are %q", cfg.Structured, modes)
	case cfg.Plaintext && cfg.Endpoint == "":
		return errors.New("plaintext needs an endpoint, that of a server on this machine")
	case !cfg.REST && strings.Contains(cfg.Endpoint, "://"):
		return fmt.Errorf("the endpoint %q is a URL, which is for REST; without it, it is host:port", cfg.Endpoint)
	case !cfg.Plaintext && strings.HasPrefix(cfg.Endpoint, "http://"):
		return fmt.Errorf("credentials are not sent to %q without TLS; use https, or plaintext, which sends none", cfg.Endpoint)
	case cfg.Plaintext && strings.HasPrefix(cfg.Endpoint, "https://"):
		return fmt.Errorf("plaintext does not go together with %q; use http", cfg.Endpoint)
	}
	return nil
}

// dial makes the SDK's client. Without creds none are sent; without trust, the system's certificates are trusted.
func dial(ctx context.Context, cfg Config, creds *auth.Credentials, trust *tls.Config) (*Client, error) {
	c := &Client{cfg: cfg}
	c.calls, c.endCalls = context.WithCancel(context.Background())
	// Telemetry is up to the caller, which knows the purpose of a call.
	options := []option.ClientOption{option.WithTelemetryDisabled()}
	if creds == nil {
		options = append(options, option.WithoutAuthentication())
	} else {
		options = append(options, option.WithAuthCredentials(watched(creds)))
	}
	if cfg.REST {
		base := httpclient.NewTransport(cfg.MaxConns)
		base.TLSClientConfig = trust
		authorized, err := htransport.NewTransport(ctx, base, options...)
		if err != nil {
			return nil, cfg.unusable(err)
		}
		// With an HTTP client, the SDK ignores the other options.
		options = []option.ClientOption{genai.WithREST(), option.WithHTTPClient(&http.Client{Transport: rewriting{authorized}})}
		c.hang = func() error {
			base.CloseIdleConnections()
			return nil // the SDK's Close only races with calls under way
		}
	} else {
		for _, o := range dialOptions(&cfg, trust) {
			options = append(options, option.WithGRPCDialOption(o))
		}
		c.hang = func() error { return c.sdk.Close() }
	}
	if e := cfg.Endpoint; e != "" {
		if cfg.REST && !strings.Contains(e, "://") {
			e = map[bool]string{false: "https://", true: "http://"}[cfg.Plaintext] + e
		}
		options = append(options, option.WithEndpoint(strings.TrimSuffix(e, "/")))
	}
	var err error
	withoutWarning(func() { c.sdk, err = genai.NewClient(ctx, cfg.Project, cfg.Location, options...) })
	if err != nil {
		return nil, cfg.unusable(err)
	}
	return c, nil
}

// unusable returns the error when the SDK rejects its options.
func (cfg *Config) unusable(err error) error {
	return &llm.Error{Kind: llm.ErrBadRequest, Provider: cfg.Name, Model: cfg.Model, Message: err.Error(), Err: err}
}

// dialOptions are the options of a gRPC connection.
func dialOptions(cfg *Config, trust *tls.Config) []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithChainStreamInterceptor(intercept),
		grpc.WithStatsHandler(trailers{}),
		grpc.WithDisableRetry(), // retries are up to wrappers of the client
		// By default, gRPC reconnects to a server that was down after up to two minutes, during which each call fails.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 20 * time.Second,
		}),
	}
	switch {
	case cfg.Plaintext:
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	case trust != nil:
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(trust)))
	}
	return options
}

// withoutWarning calls f, which makes an SDK's client, without the warning that the SDK logs each time.
func withoutWarning(f func()) {
	google.Quietly(f, "the cloud.google.com/go/vertexai/genai package is deprecated")
}
