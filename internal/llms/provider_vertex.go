//go:build vertex

package llms

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/openfiles"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/vertex"
)

// withVertex adds the client, in builds with the tag vertex only: the SDK would be a fifth of every binary, and most users need nothing beyond
// llm/gemini.
func withVertex(p *Provider) *Provider {
	p.open = openVertex
	return p
}

func openVertex(ctx context.Context, ep *Endpoint, _ string) (llm.Client, error) {
	cfg := vertex.Config{Name: ep.Name, Model: ep.Model, CredentialsFile: ep.CredentialsFile, Structured: ep.Structured, REST: ep.Transport == "rest", Images: *ep.Images, MaxConns: openfiles.Models()}
	if cfg.CredentialsFile != "" {
		if _, _, err := document.ReadRegular(cfg.CredentialsFile, maxSecret); err != nil { // the SDK reads the file without a bound
			return nil, fmt.Errorf("llms.%s: credentials_file: %w", ep.Name, err)
		}
	}
	cfg.Project, cfg.Location = ep.googleProject()
	if u, err := url.Parse(ep.BaseURL); err == nil && u.Host != "" {
		cfg.Endpoint, cfg.Plaintext = u.Host, u.Scheme == "http"
		if cfg.REST {
			cfg.Endpoint = strings.TrimSuffix(ep.BaseURL, "/")
		}
	}
	return vertex.Dial(ctx, cfg)
}
