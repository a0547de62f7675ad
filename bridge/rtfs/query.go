package rtfs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of the number of agents that are returned.
const (
	usualLimit = 100
	maxLimit   = 1000
)

// query selects agents: those that meet all of its criteria.
type query struct {
	agent        string
	capabilities []string // exact
	version      *constraint
	tags         []string // exact
	name, text   string   // in lower case
	least        int      // number of capabilities
	metadata     map[string]string
	limit        int
}

// ignored are the options of a client that are no criteria.
var ignored = []string{"registry_uri", "timeout_ms", "cache_policy", "include_offline"}

// readQuery reads criteria. The client library has the members of discovery_query beside the others, the specification within it; those within count.
func readQuery(params json.RawMessage) (*query, error) {
	var top, nested map[string]json.RawMessage
	if err := decode(params, &top); err != nil {
		return nil, err
	}
	q := &query{limit: usualLimit, metadata: map[string]string{}}
	var capability, version, versionRange string
	var tags []string
	var limit, least *int
	for _, f := range []struct {
		key string
		to  any
	}{
		{"agent_id", &q.agent},
		{"capability_id", &capability},
		{"capabilities", &q.capabilities},
		{"discovery_tags", &q.tags},
		{"tags", &tags},
		{"version_constraint", &version},
		{"version_range", &versionRange},
		{"discovery_query", &nested},
		{"max_results", &limit},
		{"limit", &limit},
	} {
		if err := take(top, f.key, f.to); err != nil {
			return nil, err
		}
	}
	for _, key := range ignored {
		delete(top, key)
	}
	maps.Copy(top, nested)
	for key, to := range map[string]any{"name_contains": &q.name, "text_search": &q.text, "min_capabilities": &least} {
		if err := take(top, key, to); err != nil {
			return nil, err
		}
	}
	for key, value := range top {
		if string(value) != "null" {
			q.metadata[key] = asText(value)
		}
	}
	if capability != "" {
		q.capabilities = slices.Insert(q.capabilities, 0, capability)
	}
	version = cmp.Or(version, versionRange)
	var err error
	if q.version, err = newConstraint(version); err != nil {
		return nil, badParams(err)
	}
	if limit != nil {
		q.limit = min(*limit, maxLimit)
	}
	if least != nil {
		q.least = *least
	}
	if q.limit < 0 {
		return nil, badParams(errors.New("limit must not be negative"))
	}
	q.tags, q.name, q.text = append(q.tags, tags...), strings.ToLower(q.name), strings.ToLower(q.text)
	return q, nil
}

// take reads a member and removes it.
func take(from map[string]json.RawMessage, key string, to any) error {
	raw, ok := from[key]
	delete(from, key)
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return badParams(fmt.Errorf("%s: %s", key, jsonError(err)))
	}
	return nil
}

// fits reports whether an agent meets all criteria.
func (q *query) fits(c *card) bool {
	if q.agent != "" && q.agent != c.AgentID || len(c.Capabilities) < q.least || !strings.Contains(strings.ToLower(c.Name), q.name) {
		return false
	}
	version := c.Version
	for i, id := range q.capabilities {
		of := c.capability(id)
		if of == nil {
			return false
		}
		if i == 0 && of.Version != nil {
			version = *of.Version
		}
	}
	if !q.version.has(version) {
		return false
	}
	for _, tag := range q.tags {
		if !slices.Contains(c.Tags, tag) {
			return false
		}
	}
	for key, value := range q.metadata {
		if is, there := c.Metadata[key]; !there || asText(is) != value {
			return false
		}
	}
	return q.text == "" || q.inText(c)
}

// inText reports whether the text occurs in what an agent says of itself.
func (q *query) inText(c *card) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), q.text) }
	return has(c.Name) || has(c.Description) || slices.ContainsFunc(c.Tags, has) ||
		slices.ContainsFunc(c.Capabilities, func(one capability) bool { return has(one.Description) })
}
