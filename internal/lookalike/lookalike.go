// Package lookalike finds names that a person may take for each other: by letters of other alphabets, by case, by - for _, by 0 for O
// and 1 for l, by marks above letters and by characters that show nothing. An agent may have any name, so wherever names are shown
// one that looks like another's is marked.
//
// It is the skeleton algorithm of Unicode's UTS #39 with a table of the letters of Greek, Cyrillic and Armenian, and of Latin beyond
// ASCII, that are drawn as those of ASCII; what Unicode calls compatible, such as full-width and mathematical letters, is
// folded by its normal form. Two names look alike when their skeletons are the same. More is taken for alike than in UTS #39:
// case, and all punctuation that joins words.
package lookalike

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// drawn has, before each =, what is drawn as the letters after it.
const drawn = `
аạα⍺ɑ=a вьβϐß=b сϲⅽ=c ԁ=d еҽ℮є=e ғ=f ɡց=g һհ=h іıιⅰ=i јϳ=j кκҡ=k ӏⅼ|ǀ=l м=m пոռη=n оοσօ٥०๐=o рρϱ=p ԛգ=q г=r ѕꜱ=s тτ=t υսʋц=u νѵⅴ=v ѡшωԝա=w хχⅹ×=x уүγʏ=y ᴢʐ=z
АΑ=a ВΒ=b СϹⅭ=c ᎠⅮ=d ЕΕ=e Ғ=f Ԍ=g НΗ=h ІΙӀⅠ=i Ј=j КΚ=k Ⅼ=l МΜⅯ=m Ν=n ОΟՕ=o РΡ=p Ԛ=q Ꮢ=r ЅՏ=s ТΤ=t ՍԱ=u Ѵ=v Ԝ=w ХΧⅩ=x УΥҮ=y ΖᏃ=z
зЗӡʒ=3 чЧ=4 бБ=6 øØ=o đĐ=d łŁ=l ħĦ=h ŧŦ=t ƅ=b æ=ae œ=oe ⁄∕╱=/ ․‧·•∙⋅=. ꞉：∶=: ʹʼ’‘＇ˈ′=' ‐‑‒–—―−﹣_.~:=- `

// alike are the letters of ASCII that are taken for each other, after the case is gone.
var alike = strings.NewReplacer("0", "o", "1", "l", "i", "l", "!", "l", "m", "rn", "w", "vv")

var table = readTable()

func readTable() map[rune]string {
	t := map[rune]string{}
	for pair := range strings.FieldsSeq(drawn) {
		from, to, _ := strings.Cut(pair, "=")
		for _, r := range from {
			t[r] = to
		}
	}
	return t
}

// Skeleton returns what two names have in common that look alike.
func Skeleton(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(draw(name)) { // some are drawn as a letter with a mark
		switch {
		case unicode.In(r, unicode.M, unicode.C) || r == '\u3164' || r == '\uffa0' || r == '\u115f' || r == '\u1160' || r == '\u2800':
			// shows nothing of its own
		case unicode.IsSpace(r):
			b.WriteByte('-')
		default:
			b.WriteRune(r)
		}
	}
	return alike.Replace(strings.ToLower(draw(b.String())))
}

// draw replaces what is drawn as something else.
func draw(s string) string {
	var b strings.Builder
	for _, r := range s {
		if to, ok := table[r]; ok {
			b.WriteString(to)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Mixed reports whether a name has letters of several of the alphabets whose letters are taken for each other.
func Mixed(name string) bool {
	n := 0
	for _, script := range []*unicode.RangeTable{unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee} {
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(script, r) }) {
			n++
		}
	}
	return n > 1
}

// Set is names that are shown together. The zero value is empty. It is not safe for concurrent use.
type Set struct {
	names map[string][]string // by skeleton
}

// maxAlike bounds how many names of one skeleton are kept: the mark of a name needs one other.
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

// Remove takes a name out.
func (s *Set) Remove(name string) {
	key := Skeleton(name)
	list := slices.DeleteFunc(s.names[key], func(n string) bool { return n == name })
	if s.names[key] = list; len(list) == 0 {
		delete(s.names, key)
	}
}

// Like returns another name that looks like this one, or "".
func (s *Set) Like(name string) string {
	for _, other := range s.names[Skeleton(name)] {
		if other != name {
			return other
		}
	}
	return ""
}

// Named returns a name as it is shown to people: with its [Set.Mark] behind it, if it has one.
func (s *Set) Named(name string) string {
	if mark := s.Mark(name); mark != "" {
		return name + " (" + mark + ")"
	}
	return name
}

// Mark returns what to say beside a name that may be taken for another one, or "". The other name is a stranger's too.
func (s *Set) Mark(name string) string {
	if other := s.Like(name); other != "" {
		return "looks like " + other
	}
	if Mixed(name) {
		return "has letters of several alphabets"
	}
	return ""
}
