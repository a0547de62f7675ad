package gemini

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/internal/endpoint"
	"github.com/cortex-orchestrator/cortex/llm/internal/google"
)

// Models returns the ids of the models of the Gemini API that generate text, sorted. Vertex AI has no such list.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	if c.key == "" {
		return nil, &llm.Error{Kind: llm.ErrBadRequest, Provider: c.name, Message: "Vertex AI does not list its models here: see them in its console"}
	}
	url := strings.TrimRight(c.base, "/") + "/" + cmp.Or(c.version, "v1beta") + "/models?pageSize=1000"
	ids, err := endpoint.Models(ctx, c.http, url, map[string]string{"X-Goog-Api-Key": c.key}, func(status int, body []byte) *llm.Error {
		return google.FaultOf(body[:min(len(body), google.MaxFault)]).Explain(status, nil, time.Now())
	})
	if e, ok := errors.AsType[*llm.Error](err); ok {
		e.Provider, e.Model = c.name, c.model
		return nil, e.Redact(c.key)
	}
	return ids, err
}
