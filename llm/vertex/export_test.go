package vertex

import (
	"context"
	"crypto/tls"

	"cloud.google.com/go/auth"

	"github.com/cortex-orchestrator/cortex/llm"
)

// DialToken is Dial with the tokens of p, trusting the certificates in trust.
func DialToken(ctx context.Context, cfg Config, p auth.TokenProvider, trust *tls.Config) (*Client, error) {
	cfg.Name = "vertex"
	if cfg.Structured == "" {
		cfg.Structured = llm.StructuredSchema
	}
	if cfg.Location == "" {
		cfg.Location = "global"
	}
	return dial(ctx, cfg, auth.NewCredentials(&auth.CredentialsOptions{TokenProvider: p}), trust)
}
