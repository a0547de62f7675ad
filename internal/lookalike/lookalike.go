// Package lookalike finds names that a person may confuse: by letters of other alphabets, by case, by - for _, by 0 for O and 1 for l, by marks
// above letters and by invisible characters. An agent may have any name, so names that look like another one are marked wherever they are shown.
//
// It uses the skeleton algorithm of Unicode's UTS #39 with Unicode's table of confusable characters, see gen.go; compatible characters, such as
// full-width and mathematical letters, are folded by normalization. Two names look alike when their skeletons are equal. Beyond UTS #39 it folds
// case, small capitals, some letters that look alike in poor fonts, and all punctuation that joins words.
package lookalike

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

//go:generate sh -c "go run gen.go confusables-15.0.txt Unihan_Variants-15.0.txt > confusables.txt"

//go:embed confusables.txt
var confusables string

// drawn adds to confusables.txt: before each = are characters that look like the letter after it. They are small capitals, which look like small
// letters where a font has none of its own, letters that differ by a small stroke, punctuation that joins words, and Chinese characters that differ
// in the length of a stroke. Each is the prototype in the file, and so stands for all that look like it.
const drawn = `
ᴀ=a ʙßƅ=b ᴅ=d ᴇꞓ=e ꜰғҒ=f ɢ=g ʜ=h ᴊ=j ĸҡ=k ʟ=l ʍ=m ɴπ=n ᴘ=p ꞯ=q ʀ=r ᴛ=t цԱ=u шω=w χ=x ɜȝ=3 ч=4 Б=6 ·=. ー_.~:=-
曰=日 入=人 末=未 土=士 已巳=己 戌戍=戊 夭=天 壬=王 冶=治 淮=准 刁=刀 母=毋 祟=崇`

// alike replaces ASCII letters that look alike; it is applied after lower-casing.
var alike = strings.NewReplacer("0", "o", "1", "l", "i", "l", "!", "l", "m", "rn", "w", "vv")

// table maps a character to what it looks like.
var table = sync.OnceValue(readTable)

func readTable() map[rune]string {
	own := map[rune]string{}
	for pair := range strings.FieldsSeq(drawn) {
		from, to, _ := strings.Cut(pair, "=")
		for _, r := range from {
			own[r] = to
		}
	}
	t := make(map[rune]string, 8<<10)
	for line := range strings.Lines(confusables) {
		to, from, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=") // 006F=0585 05E1 0647
		if !ok {
			continue
		}
		proto := draw(codePoints(strings.ReplaceAll(to, "+", " ")), own)
		for _, r := range codePoints(from) {
			t[r] = proto
		}
	}
	maps.Copy(t, own)
	return t
}

// codePoints decodes a list of code points in hexadecimal.
func codePoints(list string) string {
	var b strings.Builder
	for c := range strings.FieldsSeq(list) {
		n, err := strconv.ParseUint(c, 16, 21)
		if err != nil {
			panic(err) // the file is part of the program
		}
		b.WriteRune(rune(n))
	}
	return b.String()
}

// Skeleton returns a string that is equal for names that look alike.
func Skeleton(name string) string {
	var b strings.Builder
	t := table()
	for _, r := range norm.NFKD.String(draw(name, t)) { // some look like a letter with a mark
		switch {
		case unicode.In(r, unicode.M, unicode.C) || r == '\u3164' || r == '\uffa0' || r == '\u115f' || r == '\u1160' || r == '\u2800':
			// invisible by itself
		case unicode.IsSpace(r):
			b.WriteByte('-')
		default:
			b.WriteRune(r)
		}
	}
	return alike.Replace(draw(strings.ToLower(draw(b.String(), t)), t))
}

// draw replaces the characters of s that are in a table.
func draw(s string, by map[rune]string) string {
	var b strings.Builder
	for _, r := range s {
		if to, ok := by[r]; ok {
			b.WriteString(to)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// withLatin are scripts that people combine with Latin letters in one name: Unicode's recommended scripts, without those that have many letters of
// the same shape.
var withLatin = []string{
	"Arabic", "Bengali", "Bopomofo", "Devanagari", "Ethiopic", "Georgian", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew", "Hiragana",
	"Kannada", "Katakana", "Khmer", "Lao", "Malayalam", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thaana", "Thai", "Tibetan",
}

// eastAsian are scripts that are combined with each other.
var eastAsian = []string{"Han", "Hiragana", "Katakana", "Bopomofo", "Hangul"}

// Mixed reports whether a name combines letters of alphabets that people do not combine: the moderately restrictive level of UTS #39.
func Mixed(name string) bool {
	latin, other := false, ""
	for _, r := range name {
		if r < unicode.MaxASCII {
			latin = latin || 'a' <= r|0x20 && r|0x20 <= 'z'
			continue
		}
		switch script := scriptOf(r); {
		case script == "":
		case script == "Latin":
			latin = true
		case other == "" || slices.Contains(eastAsian, script) && slices.Contains(eastAsian, other):
			other = script
		case script != other:
			return true
		}
	}
	return latin && other != "" && !slices.Contains(withLatin, other)
}

// scriptOf returns the script of a character, or "" for one of several scripts or none.
func scriptOf(r rune) string {
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return ""
	}
	for name, script := range unicode.Scripts {
		if unicode.Is(script, r) {
			return name
		}
	}
	return "" // not assigned
}

// Set is a set of names that are shown together. The zero value is empty. It is not safe for concurrent use.
type Set struct {
	names map[string][]string // by skeleton
}

// maxAlike bounds the names of one skeleton that are stored: to mark a name, one other is enough.
const maxAlike = 8

// Add adds names.
func (s *Set) Add(names ...string) {
	if s.names == nil {
		s.names = map[string][]string{}
	}
	for _, name := range names {
		key := Skeleton(name)
		if list := s.names[key]; len(list) < maxAlike && !slices.Contains(list, name) {
			s.names[key] = append(list, name)
		}
	}
}

// Remove removes a name.
func (s *Set) Remove(name string) {
	key := Skeleton(name)
	list := slices.DeleteFunc(s.names[key], func(n string) bool { return n == name })
	if s.names[key] = list; len(list) == 0 {
		delete(s.names, key)
	}
}

// Like returns another name of the set that looks like name, or "".
func (s *Set) Like(name string) string {
	for _, other := range s.names[Skeleton(name)] {
		if other != name {
			return other
		}
	}
	return ""
}

// Named returns name followed by its [Set.Mark], if it has one, to show to people.
func (s *Set) Named(name string) string {
	if mark := s.Mark(name); mark != "" {
		return name + " (" + mark + ")"
	}
	return name
}

// Mark returns a warning to show beside a name that may be confused with another one, or "". It contains the other name, which is untrusted as
// well.
func (s *Set) Mark(name string) string {
	if other := s.Like(name); other != "" {
		return "looks like " + other
	}
	if Mixed(name) {
		return "has letters of several alphabets"
	}
	return ""
}
