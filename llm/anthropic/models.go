package anthropic

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
)

// Models returns the ids of the models that the endpoint has, sorted.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	headers := map[string]string{"Anthropic-Version": "2023-06-01"}
	if c.cfg.Key != "" {
		headers["X-Api-Key"] = c.cfg.Key
	}
	maps.Copy(headers, c.cfg.Headers)
	url := strings.TrimSuffix(strings.TrimRight(c.cfg.BaseURL, "/"), "/v1") + "/v1/models?limit=1000"
	ids, err := endpoint.Models(ctx, c.http, url, headers, func(status int, body []byte) *llm.Error {
		return faultOf(body[:min(len(body), maxFault)]).explain(status, nil)
	})
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Provider, e.Model = c.cfg.Name, c.cfg.Model
		return nil, e.Redact(c.bearer.Hide(c.secrets)...)
	}
	return ids, err
}
