package router

import (
	"strings"
	"unicode"
)

// spaced reports whether c belongs to a script that separates words by spaces.
func spaced(c rune) bool {
	return c < 0x0E00 || !unicode.In(c,
		unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// fold removes the accent of a Latin letter.
func fold(c rune) rune {
	if c < 0xC0 || c > 0x17F {
		return c
	}
	if p, ok := accents[c]; ok {
		return p
	}
	return c
}

var accents = func() map[rune]rune {
	m := make(map[rune]rune)
	for g := range strings.FieldsSeq(`aàáâãäåāăą cçćĉċč dďđ eèéêëēĕėęě gĝğġģ hĥħ iìíîïĩīĭįı jĵ kķ
		lĺļľŀł nñńņňŉ oòóôõöøōŏő rŕŗř sśŝşš tţťŧ uùúûüũūŭůűų
		wŵ yýÿŷ zźżž`) {
		rs := []rune(g)
		for _, c := range rs[1:] {
			m[c] = rs[0]
		}
	}
	return m
}()
