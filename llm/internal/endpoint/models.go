package endpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/llm"
)

// maxModels bounds the list of an endpoint's models, in bytes.
const maxModels = 4 << 20

// generates is the method of Google's models that generate text.
const generates = "generateContent"

// Models returns the ids of an endpoint's models, sorted: those of {"data": [{"id": "…"}]}, which OpenAI and Anthropic answer at url, or, of Google's
// {"models": [{"name": "models/…"}]}, those that generate text. refused explains a status that is no success, from the beginning of its body.
func Models(ctx context.Context, c *http.Client, url string, headers map[string]string, refused func(status int, body []byte) *llm.Error) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	response, err := c.Do(r)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, NetworkError(err, r.URL)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxModels))
	if response.StatusCode != http.StatusOK {
		return nil, refused(response.StatusCode, body)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		Models []struct {
			Name    string   `json:"name"`
			Methods []string `json:"supportedGenerationMethods"`
		} `json:"models"`
	}
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		return nil, &llm.Error{Kind: llm.ErrUnavailable, Message: fmt.Sprintf("%s gives no list of models: %v", url, err)}
	}
	ids := map[string]bool{}
	for _, m := range list.Data {
		if id := strings.TrimSpace(m.ID); id != "" {
			ids[id] = true
		}
	}
	for _, m := range list.Models {
		if id := strings.TrimSpace(strings.TrimPrefix(m.Name, "models/")); id != "" && slices.Contains(m.Methods, generates) {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}
