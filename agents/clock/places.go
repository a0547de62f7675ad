package clock

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed places.txt
var placesText string

// names finds places by the words of their names.
type names struct {
	byName  map[string][]named // by folded name
	longest int                // words in the longest name
}

// named is a name of a place, with its zone.
type named struct{ name, zone string }

// index returns the names in places.txt.
var index = sync.OnceValue(func() *names {
	ix := &names{byName: map[string][]named{}}
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
			if alias = strings.TrimSpace(alias); alias != "" {
				ix.add(alias, alias, zone)
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
		key := words[0].plain
		broken := false
		for _, w := range words[1:n] {
			key += " " + w.plain
			broken = broken || w.brk
		}
		if broken {
			continue
		}
		var found []place
		for _, m := range ix.byName[key] {
			if z, err := time.LoadLocation(m.zone); err == nil {
				found = append(found, place{m.name, z})
			}
		}
		if len(found) > 0 {
			return n, found
		}
	}
	if strings.Contains(words[0].raw, "/") {
		if z, err := time.LoadLocation(words[0].raw); err == nil { // a zone that is not in the list
			return 1, []place{{z.String(), z}}
		}
	}
	return 0, nil
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
