package clock

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

//go:embed places.txt
var placesText string

// names finds places by the words of their names.
type names struct {
	byName  map[string][]named // by folded name
	regions map[string]bool    // folded names of countries and the like
	sames   map[string]bool    // folded names, with their region, of places that have a better known namesake
	longest int                // words in the longest name
}

// named is a name of a place, with its zone.
type named struct{ name, zone string }

// index returns the names in places.txt.
var index = sync.OnceValue(func() *names {
	ix := &names{byName: map[string][]named{}, regions: map[string]bool{}, sames: map[string]bool{}}
	for l := range strings.Lines(placesText) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		zone, aliases, _ := strings.Cut(l, ":")
		zone, bare := strings.CutPrefix(zone, "-")
		city := strings.ReplaceAll(zone[strings.LastIndexByte(zone, '/')+1:], "_", " ")
		ix.add(zone, city, zone)
		for alias := range strings.SplitSeq(aliases, ",") {
			alias, region := strings.CutPrefix(strings.TrimSpace(alias), "*")
			if region {
				ix.regions[fold(alias)] = true
			}
			alias, namesake := strings.CutPrefix(alias, "=")
			if namesake {
				ix.sames[fold(alias)] = true
			}
			if alias != "" {
				name := alias
				if namesake {
					name = strings.Replace(alias, " ", ", ", 1)
				}
				ix.add(alias, name, zone)
				if fold(alias) == fold(city) {
					city = alias // with its accents
				}
			}
		}
		if !bare {
			ix.add(city, city, zone)
		}
	}
	for _, utc := range []string{"UTC", "GMT", "Zulu", "Greenwich"} {
		ix.add(utc, utc, "UTC")
	}
	return ix
})

func (ix *names) add(key, name, zone string) {
	key = fold(key)
	n := named{name, zone}
	if !slices.ContainsFunc(ix.byName[key], func(o named) bool { return o.zone == zone }) {
		ix.byName[key] = append(ix.byName[key], n)
	}
	ix.longest = max(ix.longest, strings.Count(key, " ")+1)
}

// match returns the places of the longest name at the beginning of words, and its number of words.
func (ix *names) match(words []word) (int, []place) {
	if p, ok := offsetZone(words[0].plain); ok {
		return 1, []place{p}
	}
	for n := min(ix.longest, len(words)); n > 0; n-- {
		if slices.ContainsFunc(words[1:n], func(w word) bool { return w.and || w.brk && !ix.sames[phrase(words[:n])] }) {
			continue
		}
		key := phrase(words[:n])
		var found []place
		for _, m := range ix.byName[key] {
			if z, err := time.LoadLocation(m.zone); err == nil {
				found = append(found, place{name: m.name, zone: z})
			}
		}
		if len(found) > 0 {
			return n, found
		}
	}
	if strings.Contains(words[0].raw, "/") {
		if z, err := time.LoadLocation(words[0].raw); err == nil { // a zone that is not in the list
			return 1, []place{{name: z.String(), zone: z}}
		}
	}
	return 0, nil
}

// phrase returns words as they are in a folded name.
func phrase(words []word) string {
	name := words[0].plain
	for _, w := range words[1:] {
		name += " " + w.plain
	}
	return name
}

// maxLetters bounds a name that is compared with all others.
const maxLetters = 30

// nearest returns the name that is one slip away from a folded one, as people write it, or two from a long one; "" when there is none. People rarely
// mistake the first letter.
func (ix *names) nearest(name string) string {
	n := utf8.RuneCountInString(name)
	if n < 4 || n > maxLetters {
		return ""
	}
	best, slips := "", 2
	if n > 8 {
		slips = 3
	}
	for other, all := range ix.byName {
		if other[0] != name[0] {
			continue
		}
		d := levenshtein.ComputeDistance(name, other)
		if d == 2 && exchanged(name, other) {
			d = 1
		}
		if d < slips || d == slips && all[0].name < best {
			best, slips = all[0].name, d
		}
	}
	return best
}

// exchanged reports whether two names differ by two neighbouring letters in the other order, as in "toyko".
func exchanged(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// folding replaces accented letters by plain ones, and removes optional characters.
var folding = strings.NewReplacer(
	"à", "a", "á", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "ā", "a", "ă", "a", "ą", "a", "æ", "ae", "ç", "c", "ć", "c", "č", "c", "ď", "d",
	"đ", "d", "è", "e", "é", "e", "ê", "e", "ë", "e", "ē", "e", "ė", "e", "ę", "e", "ě", "e", "ğ", "g", "ì", "i", "í", "i", "î", "i", "ï", "i",
	"ī", "i", "ı", "i", "ł", "l", "ñ", "n", "ń", "n", "ň", "n", "ò", "o", "ó", "o", "ô", "o", "õ", "o", "ö", "o", "ø", "o", "ō", "o", "ő", "o",
	"ř", "r", "ś", "s", "š", "s", "ş", "s", "ș", "s", "ß", "ss", "ţ", "t", "ț", "t", "ť", "t", "ù", "u", "ú", "u", "û", "u", "ü", "u", "ū", "u",
	"ů", "u", "ű", "u", "ý", "y", "ÿ", "y", "ź", "z", "ż", "z", "ž", "z", "\u0300", "", "\u0301", "", "\u0302", "", "\u0303", "", "\u0308", "",
	".", "", "'", "", "’", "", "_", " ",
)

// fold returns s in lower case, without accents, dots and possessive endings.
func fold(s string) string {
	words := strings.Fields(strings.ToLower(s))
	for i, w := range words {
		words[i] = folding.Replace(strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s"))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}
