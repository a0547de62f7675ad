package agentcard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// schemeOf maps the older types of security schemes to their fields in version 1.0.
var schemeOf = map[string]string{
	"apiKey": "apiKeySecurityScheme", "http": "httpAuthSecurityScheme", "oauth2": "oauth2SecurityScheme",
	"openIdConnect": "openIdConnectSecurityScheme", "mutualTLS": "mtlsSecurityScheme",
}

// flowOrder is the order of preference among OAuth flows: a card of package a2a has only one.
var flowOrder = []string{"authorizationCode", "clientCredentials", "deviceCode", "implicit", "password"}

// schemes decodes security schemes one by one: one that package a2a does not know must not make a card unreadable.
func (r *reader) schemes(m map[string]any) a2a.NamedSecuritySchemes {
	var out a2a.NamedSecuritySchemes
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v, ok := m[name].(map[string]any)
		if !ok {
			r.warn("securitySchemes.%s is left out: it must be a group of fields, not %s", name, kindWord(m[name]))
			continue
		}
		b, err := json.Marshal(map[string]any{name: r.scheme(name, v)})
		if err != nil {
			continue // values decoded from JSON can be encoded
		}
		var one a2a.NamedSecuritySchemes
		if err := json.Unmarshal(b, &one); err != nil {
			r.warn("securitySchemes.%s is left out: it is none of the kinds that a card can hold", name)
			continue
		}
		for k, s := range one {
			if out == nil {
				out = a2a.NamedSecuritySchemes{}
			}
			out[k] = s
		}
	}
	return out
}

// scheme converts a security scheme of any version to that of version 1.0.
func (r *reader) scheme(name string, v map[string]any) map[string]any {
	v = camelKeys(v)
	for _, kind := range slices.Sorted(maps.Values(schemeOf)) {
		if inner, ok := v[kind].(map[string]any); ok {
			return map[string]any{kind: r.flow(name, camelKeys(inner))}
		}
	}
	t, _ := v["type"].(string)
	kind := schemeOf[t]
	if kind == "" {
		return v
	}
	v = maps.Clone(v)
	delete(v, "type")
	if in, ok := v["in"]; ok {
		v["location"] = in
		delete(v, "in")
	}
	return map[string]any{kind: r.flow(name, v)}
}

// flow reduces an OAuth scheme to one flow.
func (r *reader) flow(name string, scheme map[string]any) map[string]any {
	flows, _ := scheme["flows"].(map[string]any)
	if len(flows) == 0 {
		return scheme
	}
	flows = camelKeys(flows)
	for _, f := range flowOrder {
		flow, ok := flows[f].(map[string]any)
		if !ok {
			continue
		}
		if len(flows) > 1 {
			r.warn("securitySchemes.%s: of its %d flows only %s is kept", name, len(flows), f)
		}
		scheme = maps.Clone(scheme)
		scheme["flows"] = map[string]any{f: camelKeys(flow)}
		break
	}
	return scheme
}

func camelKeys(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[camel(k)] = v
	}
	return out
}

// requirements decodes the security requirements of version 1.0, or else those of the older field. In 1.0 the scopes of a scheme are a list within an
// object, {"list": [...]}; package a2a uses the bare list.
func (r *reader) requirements(at, olderAt string, list, older []any) a2a.SecurityRequirementsOptions {
	if len(list) == 0 {
		at, list = olderAt, older
	}
	var out a2a.SecurityRequirementsOptions
	for i, e := range list {
		m, ok := e.(map[string]any)
		if schemes, wrapped := m["schemes"].(map[string]any); wrapped {
			m = schemes
		}
		requirement := a2a.SecurityRequirements{}
		for name, v := range m {
			if group, wrapped := v.(map[string]any); wrapped {
				v = group["list"]
			}
			scopes, isList := v.([]any)
			ok = ok && (isList || v == nil)
			texts := a2a.SecuritySchemeScopes{}
			for _, s := range scopes {
				texts = append(texts, fmt.Sprint(s))
			}
			requirement[a2a.SecuritySchemeName(name)] = texts
		}
		if !ok {
			r.warn("%s[%d] is left out: it must name schemes and their scopes, such as {schemes: {oauth: {list: [read]}}}", at, i)
			continue
		}
		out = append(out, requirement)
	}
	return out
}
