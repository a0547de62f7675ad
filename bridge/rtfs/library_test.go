package rtfs

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// post posts a body as it is, and returns the status and the body of the answer.
func (w *world) post(path, body string, header ...string) (int, string) {
	w.T.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://"+w.address+path, strings.NewReader(body))
	must(w.T, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	must(w.T, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	must(w.T, err)
	return a.StatusCode, string(b)
}

// library calls a method as the client library does: with an id that is a text, no tolerance for another status than 2xx, and the fields it requires.
func (w *world) library(method string, params any, result any) error {
	w.T.Helper()
	p, err := json.Marshal(params)
	must(w.T, err)
	status, body := w.post("/rtfs", fmt.Sprintf(`{"jsonrpc":"2.0","id":"5b0c7a52-0d5c-4b55-9f5e-0a2f6a0f9b11","method":%q,"params":%s}`, method, p))
	if status < 200 || status > 299 {
		return fmt.Errorf("HTTP %d", status)
	}
	var a struct {
		Version *string          `json:"jsonrpc"`
		ID      *string          `json:"id"`
		Result  *json.RawMessage `json:"result"`
		Error   *struct {
			Code    *int32  `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		return fmt.Errorf("parse %s: %w", body, err)
	}
	switch {
	case a.Version == nil || a.ID == nil:
		return fmt.Errorf("parse %s: jsonrpc and id are required", body)
	case a.Error != nil && (a.Error.Code == nil || a.Error.Message == nil):
		return fmt.Errorf("parse %s: code and message are required", body)
	case a.Error != nil:
		return fmt.Errorf("%d: %s", *a.Error.Code, *a.Error.Message)
	case result == nil:
		return nil
	case a.Result == nil:
		return fmt.Errorf("parse %s: no result", body)
	}
	return json.Unmarshal(*a.Result, result)
}

// strictCard is an agent_card as the client library reads it: every field that is no option is required.
type strictCard struct {
	AgentID      string  `json:"agent_id"`
	ProfileURI   *string `json:"agent_profile_uri"`
	Name         string  `json:"name"`
	Version      string  `json:"version"`
	Description  string  `json:"description"`
	Capabilities []struct {
		ID          string         `json:"capability_id"`
		Description string         `json:"description"`
		Input       *string        `json:"input_schema_ref"`
		Output      *string        `json:"output_schema_ref"`
		Version     *string        `json:"version"`
		Metadata    map[string]any `json:"metadata"`
	} `json:"capabilities"`
	Communication struct {
		Protocols []string `json:"protocols"`
		Endpoints []struct {
			Protocol string         `json:"protocol"`
			URI      string         `json:"uri"`
			Details  map[string]any `json:"details"`
		} `json:"endpoints"`
	} `json:"communication"`
	Tags     []string       `json:"discovery_tags"`
	Metadata map[string]any `json:"metadata"`
}

// UnmarshalJSON requires what the client library does.
func (c *strictCard) UnmarshalJSON(b []byte) error {
	var is map[string]json.RawMessage
	if err := json.Unmarshal(b, &is); err != nil {
		return err
	}
	for _, key := range []string{"agent_id", "name", "version", "description", "capabilities", "communication", "discovery_tags", "metadata"} {
		if raw, ok := is[key]; !ok || string(raw) == "null" {
			return fmt.Errorf("missing field %s in %s", key, b)
		}
	}
	if _, ok := is["agent_profile_uri"]; !ok {
		return fmt.Errorf("missing field agent_profile_uri in %s", b)
	}
	type plain strictCard
	return json.Unmarshal(b, (*plain)(c))
}

// discover returns the agents that meet criteria, as the client library does.
func (w *world) discover(criteria map[string]any) (all []*strictCard) {
	w.T.Helper()
	var r struct {
		Agents []*strictCard `json:"agents"`
		Total  *uint32       `json:"total_count"`
		Took   *uint64       `json:"query_time_ms"`
	}
	must(w.T, w.library("rtfs.registry.discover", criteria, &r))
	if r.Agents == nil || r.Total == nil || r.Took == nil {
		w.T.Errorf("discover(%v): a field is missing", criteria)
	}
	return r.Agents
}

// ids returns the ids of the agents that meet criteria.
func (w *world) ids(criteria map[string]any) string {
	w.T.Helper()
	var ids []string
	for _, c := range w.discover(criteria) {
		ids = append(ids, c.AgentID)
	}
	return strings.Join(ids, " ")
}

// register registers an agent, and fails the test if it cannot.
func (w *world) register(card map[string]any, endpoint string, ttl any) (expires string) {
	w.T.Helper()
	var r struct {
		Status  *string `json:"status"`
		ID      *string `json:"agent_id"`
		Expires *string `json:"expires_at"`
	}
	must(w.T, w.library("rtfs.registry.register", map[string]any{"agent_card": card, "endpoint_url": endpoint, "ttl_seconds": ttl}, &r))
	if r.Status == nil || *r.Status != "registered" || r.ID == nil || *r.ID != card["agent_id"] || r.Expires == nil {
		w.T.Fatalf("register: %v", r)
	}
	return *r.Expires
}

// pdf returns the card of an agent, as the client library writes it.
func pdf(id, endpoint string) map[string]any {
	return map[string]any{
		"agent_id": id, "agent_profile_uri": nil, "name": "PDF tools", "version": "1.4.0", "description": "Reads and splits PDF files",
		"capabilities": []any{map[string]any{
			"capability_id": "pdf.split", "description": "Splits a PDF by page", "input_schema_ref": nil, "output_schema_ref": nil, "version": "1.10.0", "metadata": nil,
		}},
		"communication":  map[string]any{"protocols": []string{"http"}, "endpoints": []any{map[string]any{"protocol": "http", "uri": endpoint, "details": nil}}},
		"discovery_tags": []string{"pdf", "documents"}, "metadata": map[string]any{"owner": "docs-team"},
	}
}
