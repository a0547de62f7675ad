package openai

import (
	"context"
	"errors"
	"maps"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
)

// Models returns the ids of the models that the endpoint has, sorted. Azure's older URLs have no such list.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	if c.cfg.APIVersion != "" {
		return nil, &llm.Error{Kind: llm.ErrBadRequest, Provider: c.cfg.Name, Message: "Azure's older URLs do not list deployments: see them in its portal"}
	}
	headers, url := map[string]string{}, c.cfg.BaseURL+"/models"
	if c.cfg.Key != "" {
		headers["Authorization"] = "Bearer " + c.cfg.Key
	}
	maps.Copy(headers, c.cfg.Headers)
	ids, err := endpoint.Models(ctx, c.http, url, headers, func(status int, body []byte) *llm.Error {
		return errorOf(status, hide(body[:min(len(body), maxErrorBody)], c.hidden()), url)
	})
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return nil, c.explain(e, &answer{})
	}
	return ids, err
}
