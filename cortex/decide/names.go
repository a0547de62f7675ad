package decide

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// shortName is the most letters of a name that counts only with an @ before it, since any text may have it as a word.
const shortName = 2

// names reports whether text names an agent: whether its name stands there as words of their own, ignoring case. Agents choose their names, and one that
// is a part of other words, such as "a", is in any text.
func names(text, name string) bool {
	text, name = strings.ToLower(text), strings.ToLower(name)
	short := utf8.RuneCountInString(name) <= shortName
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(name)
		before, _ := utf8.DecodeLastRuneInString(text[:begin])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !inWord(before) && !inWord(after) && (!short || before == '@') {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[begin:])
		at = begin + size
	}
	return false
}

// inWord reports whether r may be a part of a name. Text without spaces between its words, such as that in Chinese, has names as it has words: there
// a letter may stand beside a name.
func inWord(r rune) bool {
	return r == '_' || unicode.In(r, unicode.L, unicode.N, unicode.M) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}
