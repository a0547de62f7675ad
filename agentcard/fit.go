package agentcard

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
)

var stringType = reflect.TypeFor[string]()

// into decodes the fields of m into dst, a pointer to a struct, strictly: an unknown field is an error that suggests a known one. Names may be
// written as in JSON (inputModes) or as in protobuf (input_modes). A number or a boolean is accepted as a text, since YAML allows texts without
// quotes. Errors begin with the location of the mistake, prefixed by at, which is "" or ends with a dot.
func into(at string, m map[string]any, dst any) error {
	v, err := fitStruct(at, m, reflect.TypeOf(dst).Elem())
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", strings.TrimSuffix(at, "."), err)
	}
	if err := json.Unmarshal(b, dst); err != nil {
		return fmt.Errorf("%scannot be read: %s", at, plainJSONError(err))
	}
	return nil
}

// fit returns v in the JSON form of type t.
func fit(at string, v any, t reflect.Type) (any, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if v == nil || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return v, nil
	}
	wrong := func() error { return fmt.Errorf("%s must be %s, not %s", at, typeWord(t), kindWord(v)) }
	switch t.Kind() {
	case reflect.String:
		switch v := v.(type) {
		case string:
			return v, nil
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		case bool:
			return strconv.FormatBool(v), nil
		}
		return nil, wrong()
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return nil, wrong()
		}
		out := make([]any, len(list))
		for i, e := range list {
			var err error
			if out[i], err = fit(fmt.Sprintf("%s[%d]", at, i), e, t.Elem()); err != nil {
				return nil, err
			}
		}
		return out, nil
	case reflect.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return nil, wrong()
		}
		out := make(map[string]any, len(m))
		for _, k := range slices.Sorted(maps.Keys(m)) {
			var err error
			if out[k], err = fit(at+"."+k, m[k], t.Elem()); err != nil {
				return nil, err
			}
		}
		return out, nil
	case reflect.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s must have fields such as %s, not be %s", at, exampleFields(t), kindWord(v))
		}
		return fitStruct(at+".", m, t)
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return nil, wrong()
		}
	case reflect.Int:
		if f, ok := v.(float64); !ok || f != float64(int(f)) {
			return nil, wrong()
		}
	case reflect.Float64:
		if _, ok := v.(float64); !ok {
			return nil, wrong()
		}
	}
	return v, nil
}

func fitStruct(at string, m map[string]any, t reflect.Type) (map[string]any, error) {
	known, types := fieldsOf(t)
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		name := k
		if types[name] == nil {
			name = camel(k)
		}
		ft := types[name]
		if ft == nil {
			if near := nearest(k, known); near != "" {
				return nil, fmt.Errorf("unknown field %q; did you mean %q?", at+k, at+near)
			}
			return nil, fmt.Errorf("unknown field %q; remove it, or use one of %s", at+k, strings.Join(known, ", "))
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is there twice, as %q and %q: keep one", at+name, name, k)
		}
		v, err := fit(at+k, m[k], ft)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// fieldsOf returns the JSON names of a struct's fields, in order, and their types. An outer field hides one of the same name in an embedded struct,
// as in encoding/json.
func fieldsOf(t reflect.Type) ([]string, map[string]reflect.Type) {
	var names []string
	types := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			inner, innerTypes := fieldsOf(f.Type)
			names = append(names, inner...)
			maps.Copy(types, innerTypes)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := types[name]; !ok {
			names = append(names, name)
		}
		types[name] = f.Type
	}
	return names, types
}

// camel converts a protobuf name to its JSON form.
func camel(s string) string {
	words := strings.Split(s, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// exampleFields names what a group of fields may begin with.
func exampleFields(t reflect.Type) string {
	known, _ := fieldsOf(t)
	var shown []string
	for _, name := range []string{"name", "description", "url", "uri"} {
		if slices.Contains(known, name) && len(shown) < 2 {
			shown = append(shown, name)
		}
	}
	if len(shown) == 0 {
		shown = known[:min(2, len(known))]
	}
	for i, name := range shown {
		shown[i] = fmt.Sprintf("%q", name+": ...")
	}
	return strings.Join(shown, " and ")
}

func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a group of fields"
}

// kindWord says what a decoded value is.
func kindWord(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case string:
		return "a text"
	case []any:
		return "a list"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	}
	return "a group of fields"
}

// nearest returns the name that k was probably meant to be, or "".
func nearest(k string, names []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	best, bestDistance := "", 3
	if len(k) > 64 { // a stranger's, which takes its time
		return best
	}
	for _, n := range names {
		if d := levenshtein.ComputeDistance(plain(k), plain(n)); d < bestDistance && d <= len(n)/2 {
			best, bestDistance = n, d
		}
	}
	return best
}
