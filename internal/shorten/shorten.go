// Package shorten cuts texts without leaving half a character at the end.
package shorten

import "unicode/utf8"

// To returns the beginning of s, in at most n bytes.
func To(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := max(n, 0)
	for end > 0 && n-end < utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Marked returns s, or To with mark behind it when s has more than n bytes.
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
