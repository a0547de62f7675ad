package agentcard

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxUnresolved bounds how many references are reported.
const maxUnresolved = 32

// Fields whose values are maps of schemas by name, and fields whose values are data that may look like schemas.
var (
	holdNames = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired"}
	holdData  = []string{"const", "enum", "default", "examples"}
)

// localize modifies a schema so that each of its references is a pointer to another place in it, and removes other names: ids and anchors. It removes
// references that cannot be resolved within the schema, and returns them.
func localize(doc any) []string {
	root, ok := doc.(map[string]any)
	if !ok {
		return nil
	}
	draft, _ := root["$schema"].(string)
	if !knownDraft(draft) {
		delete(root, "$schema")
	}
	l := &localizer{doc: doc, idKey: "$id", resources: map[string]string{}, anchors: map[string]string{}}
	if strings.Contains(draft, "draft-04") {
		l.idKey = "id"
	}
	l.each(doc, place{}, true, l.collect)
	l.each(doc, place{}, true, l.rewrite)
	for _, b := range l.beside {
		all, _ := b.schema["allOf"].([]any)
		b.schema["allOf"] = append(all, map[string]any{"$ref": b.target})
	}
	return l.unresolved
}

// place is a position in the schema, and the resource that it belongs to: the schema itself, or a part with an id.
type place struct {
	pointer string
	base    string // of the resource
	url     string // of the resource
}

func (p place) at(key string) place {
	p.pointer += "/" + pointerEscape.Replace(key)
	return p
}

type localizer struct {
	doc        any
	idKey      string
	resources  map[string]string // pointers by id
	anchors    map[string]string // pointers by the resource's pointer, "#" and name
	unresolved []string
	beside     []beside
}

// beside is a reference in a schema that has one already.
type beside struct {
	schema map[string]any
	target string
}

// each calls f for each object that may be a schema, in the order of the field names.
func (l *localizer) each(v any, p place, isSchema bool, f func(map[string]any, place)) {
	switch v := v.(type) {
	case map[string]any:
		if isSchema {
			p = l.enter(v, p)
			f(v, p)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !isSchema || !slices.Contains(holdData, k) {
				l.each(v[k], p.at(k), !isSchema || !slices.Contains(holdNames, k), f)
			}
		}
	case []any:
		for i, e := range v {
			l.each(e, p.at(strconv.Itoa(i)), true, f)
		}
	}
}

// enter returns the place of a schema; one with an id is a resource of its own.
func (l *localizer) enter(m map[string]any, p place) place {
	id, _ := m[l.idKey].(string)
	if id, _, _ = strings.Cut(id, "#"); id != "" {
		p.base, p.url = p.pointer, join(p.url, id)
	}
	return p
}

// collect records ids and anchors that references may name.
func (l *localizer) collect(m map[string]any, p place) {
	if p.base == p.pointer && p.url != "" {
		if _, taken := l.resources[p.url]; !taken {
			l.resources[p.url] = p.pointer
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := m[key].(string); ok {
			l.anchors[p.base+"#"+name] = p.pointer
		}
	}
	if id, ok := m[l.idKey].(string); ok && strings.HasPrefix(id, "#") { // an anchor of older drafts
		l.anchors[p.base+id] = p.pointer
	}
}

// rewrite converts references to pointers, and removes ids and anchors. It treats a dynamic reference as a plain one.
func (l *localizer) rewrite(m map[string]any, p place) {
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		ref, ok := m[key].(string)
		if !ok {
			continue
		}
		delete(m, key)
		target, found := l.resolve(ref, p)
		switch {
		case found && m["$ref"] == nil:
			m["$ref"] = target
		case found:
			l.beside = append(l.beside, beside{m, target})
		case !slices.Contains(l.unresolved, ref) && len(l.unresolved) < maxUnresolved:
			l.unresolved = append(l.unresolved, ref)
		}
	}
	for _, key := range []string{l.idKey, "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"} {
		delete(m, key)
	}
	if p.pointer != "" {
		delete(m, "$schema")
	}
}

// resolve converts a reference from a place to a pointer to a schema in the document.
func (l *localizer) resolve(ref string, p place) (string, bool) {
	name, fragment, _ := strings.Cut(ref, "#")
	base := p.base
	if name != "" {
		var ok bool
		if base, ok = l.resources[join(p.url, name)]; !ok {
			return "", false
		}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return "", false
	}
	pointer := base + fragment
	if fragment != "" && !strings.HasPrefix(fragment, "/") {
		var ok bool
		if pointer, ok = l.anchors[base+"#"+fragment]; !ok {
			return "", false
		}
	}
	if !l.isSchema(pointer) {
		return "", false
	}
	tokens := strings.Split(pointer, "/")
	for i, t := range tokens {
		tokens[i] = url.PathEscape(t)
	}
	return "#" + strings.Join(tokens, "/"), true
}

var pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")

// isSchema reports whether there is a schema at a pointer.
func (l *localizer) isSchema(pointer string) bool {
	v := l.doc
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = pointerUnescape.Replace(token)
		switch at := v.(type) {
		case map[string]any:
			v = at[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return false
			}
			v = at[i]
		default:
			return false
		}
	}
	switch v.(type) {
	case map[string]any, bool:
		return true
	}
	return false
}

// join resolves a URL relative to another one; it returns "" for an invalid one.
func join(base, ref string) string {
	r, err := url.Parse(ref)
	if err != nil {
		return ""
	}
	b, err := url.Parse(base)
	if err != nil {
		return r.String()
	}
	return b.ResolveReference(r).String()
}

func knownDraft(s string) bool {
	s = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(s, "http://"), "https://"), "#")
	switch s {
	case "json-schema.org/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema",
		"json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-04/schema":
		return true
	}
	return false
}
