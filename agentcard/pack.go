package agentcard

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/nesting"
)

// fieldEvaluators is the field of an AgentSpec with the names of evaluators.
const fieldEvaluators = "evaluators"

// keptDecoded are fields that are read for each decision, unless they are longer than maxDecoded bytes.
var keptDecoded = []string{fieldPatterns, fieldTags, fieldLabels, fieldEvaluators}

const maxDecoded = 1 << 10

// Pack returns a copy of c that takes far less memory: the lists and objects in its extensions and signatures are their JSON. Decoded they take up to
// fifty times as much. The copy has the same JSON as c and the same [Spec], and shares memory with c.
func Pack(c *a2a.AgentCard) *a2a.AgentCard {
	n := *c
	n.Capabilities.Extensions = slices.Clone(c.Capabilities.Extensions)
	for i := range n.Capabilities.Extensions {
		e := &n.Capabilities.Extensions[i]
		e.Params = packed(e.Params, func(k string, v any) any {
			abilities, ok := v.(map[string]any)
			if e.URI != ExtensionURI || k != fieldAbilities || !ok {
				return pack(v, e.URI == ExtensionURI && slices.Contains(keptDecoded, k))
			}
			return packed(abilities, func(id string, v any) any {
				if m, ok := v.(map[string]any); ok && HasSkill(c, id) {
					return packed(m, func(_ string, v any) any { return pack(v, false) })
				}
				return pack(v, false)
			})
		})
	}
	n.Signatures = slices.Clone(c.Signatures)
	for i := range n.Signatures {
		s := &n.Signatures[i]
		s.Header = packed(s.Header, func(_ string, v any) any { return pack(v, false) })
	}
	return &n
}

// packed returns a copy of m with f of each value.
func packed(m map[string]any, f func(k string, v any) any) map[string]any {
	if m == nil {
		return nil
	}
	n := make(map[string]any, len(m))
	for k, v := range m {
		n[k] = f(k, v)
	}
	return n
}

// pack returns the JSON of a list or an object, and other values as they are. A short one stays as it is if it is to be read.
func pack(v any, read bool) any {
	switch v.(type) {
	case map[string]any, []any:
		if text, err := json.Marshal(v); err == nil && !(read && len(text) <= maxDecoded) {
			return json.RawMessage(slices.Clip(text))
		}
	}
	return v
}

// unpacked undoes pack.
func unpacked(v any) any {
	text, ok := v.(json.RawMessage)
	if !ok {
		return v
	}
	var is any
	_ = json.Unmarshal(text, &is) // pack has written it
	return is
}

// Weight returns about how many bytes of memory a card takes.
func Weight(c *a2a.AgentCard) int { return weigh(reflect.ValueOf(c)) }

const entryWeight = 16 // of an entry of a map, besides its name and value

// weigh returns about how many bytes v takes, besides those of its type.
func weigh(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n = int(v.Elem().Type().Size()) + weigh(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			n += weigh(v.Field(i))
		}
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n
		}
		for i := range v.Len() {
			n += weigh(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return 0
		}
		n = 256 // a map has room for its first entries
		entry := entryWeight + int(v.Type().Key().Size()+v.Type().Elem().Size())
		for k, e := range v.Seq2() {
			n += entry + weigh(k) + weigh(e)
		}
	}
	return n
}

// deep reports whether v, which may be packed, has more than maxDepth levels of lists and objects.
func deep(v any) bool {
	if text, ok := v.(json.RawMessage); ok {
		return nesting.Depth(text) > maxDepth
	}
	return !shallow(v, maxDepth)
}
