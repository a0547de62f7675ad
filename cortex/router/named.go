package router

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of Named.
const (
	maxNamed = 20
	maxID    = 256 // bytes of an id that can be named
)

// Named returns the ids of the agents that text names, ignoring case, in the order of the text; at most 20.
func (x *Index) Named(text string) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mentioned(text)
}

func (x *Index) mentioned(text string) []string {
	text = text[:min(len(text), maxText)]
	var ids []string
	look := func(token string) bool {
		if token == "" || len(token) > maxID {
			return false
		}
		found := x.byName[strings.ToLower(token)]
		if slices.Contains(found, token) { // an exact match, where ids differ only in case
			found = []string{token}
		}
		for _, id := range found {
			if len(ids) < maxNamed && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return len(found) > 0
	}
	for _, field := range strings.Fields(text) {
		if look(field) {
			continue
		}
		field = strings.TrimFunc(field, func(r rune) bool { return !idRune(r) })
		if look(field) {
			continue
		}
		for _, token := range strings.FieldsFunc(field, func(r rune) bool { return !idRune(r) && r != '.' && r != '-' }) {
			if !look(token) {
				look(strings.TrimFunc(token, func(r rune) bool { return !idRune(r) }))
			}
		}
	}
	return ids
}

// Addressed reports whether text names an agent unambiguously: with an @ before its id, or an id with characters that distinguish it from words.
func (x *Index) Addressed(text string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.addressed(text)) > 0
}

// addressed returns the ids that text names unambiguously: with an @ before them, or with characters that distinguish them from words.
func (x *Index) addressed(text string) []string {
	var ids []string
	for _, id := range x.mentioned(text) {
		if strings.ContainsAny(id, "_.-0123456789") || hasAt(strings.ToLower(text), strings.ToLower(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// hasAt reports whether text has id behind an @, and not the beginning of a longer id.
func hasAt(text, id string) bool {
	for {
		_, rest, ok := strings.Cut(text, "@"+id)
		if !ok {
			return false
		}
		after, n := utf8.DecodeRuneInString(rest)
		next, _ := utf8.DecodeRuneInString(rest[n:])
		if !idRune(after) && !(strings.ContainsRune(".-", after) && idRune(next)) {
			return true
		}
		text = rest
	}
}

// idRune reports whether an id can begin or end with r.
func idRune(r rune) bool { return r == '_' || unicode.In(r, unicode.L, unicode.N, unicode.M) }

// name adds an agent for Named; unname undoes it.
func (x *Index) name(id string) {
	key := strings.ToLower(id)
	ids := x.byName[key]
	if i, ok := slices.BinarySearch(ids, id); !ok {
		x.byName[key] = slices.Insert(slices.Clone(ids), i, id)
	}
}

func (x *Index) unname(id string) {
	key := strings.ToLower(id)
	ids := slices.DeleteFunc(slices.Clone(x.byName[key]), func(s string) bool { return s == id })
	if len(ids) == 0 {
		delete(x.byName, key)
		return
	}
	x.byName[key] = ids
}
