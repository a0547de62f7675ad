// Package shorten truncates texts between characters.
package shorten

import (
	"strings"
	"unicode/utf8"
)

// To returns the longest prefix of s of at most n bytes that ends between characters. It is a copy: who keeps the beginning of a long text does not keep
// its end.
func To(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := max(n, 0)
	for end > 0 && n-end < utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end])
}

// Words returns the first words, at most most of them, each truncated to n bytes. It is never nil.
func Words(words []string, most, n int) []string {
	some := make([]string, 0, min(len(words), most))
	for _, w := range words[:min(len(words), most)] {
		some = append(some, To(w, n))
	}
	return some
}

// Marked returns s if it has at most n bytes, else To(s, n) followed by mark.
func Marked(s string, n int, mark string) string {
	if len(s) <= n {
		return s
	}
	return To(s, n) + mark
}

// Whole returns how many bytes of b end with a whole character: what comes next may complete it.
func Whole(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if end := len(b) - i; utf8.RuneStart(b[end]) {
			if !utf8.FullRune(b[end:]) {
				return end
			}
			break
		}
	}
	return len(b)
}
