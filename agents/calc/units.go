package calc

import (
	_ "embed"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	maxUnit       = 40 // bytes of a unit's name
	maxSeparators = 5  // of a request that are tried
)

//go:embed units.txt
var unitsText string

// unit is a unit of measurement: x of it are x*size + zero in the base unit of its dimension.
type unit struct {
	dimension  string
	size, zero *big.Rat
}

// unitNames maps names to units: as written, and in lower case where that is not another unit's name.
var unitNames = sync.OnceValue(func() map[string]unit {
	exact, folded := map[string]unit{}, map[string]unit{}
	for l := range strings.Lines(unitsText) {
		if l = strings.TrimSpace(l); l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		f := strings.SplitN(l, " | ", 3)
		size, zero, _ := strings.Cut(f[1], " + ")
		u := unit{dimension: f[0], size: mustRat(size), zero: new(big.Rat)}
		if zero != "" {
			u.zero = mustRat(zero)
		}
		for n := range strings.SplitSeq(f[2], ", ") {
			exact[n] = u
			if l := strings.ToLower(n); folded[l].size == nil {
				folded[l] = u
			}
		}
	}
	for n, u := range folded {
		if _, ok := exact[n]; !ok {
			exact[n] = u
		}
	}
	return exact
})

func mustRat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("calc: bad number in units.txt: " + s)
	}
	return r
}

func lookupUnit(name string) (unit, bool) {
	name = strings.TrimSpace(name)
	u, ok := unitNames()[name]
	if !ok {
		u, ok = unitNames()[strings.ToLower(name)]
	}
	return u, ok
}

// IsUnit reports whether name is that of a unit of measurement.
func IsUnit(name string) bool {
	_, ok := lookupUnit(name)
	return ok && len(name) <= maxUnit
}

// Conversion returns a request for a conversion as "5 kg in pounds", in whatever words it is asked; false when it is none.
func Conversion(text string) (string, bool) {
	if Understands(text) != Convert {
		return "", false
	}
	return plainConversion(clean(text)), true
}

var (
	convertWords = regexp.MustCompile(`(?i)^(?:convert|change|turn|express|how (?:much|long|far|big|small|tall|high|wide|deep|heavy|fast|hot|warm|cold) (?:is|are))\s+`)
	howMany      = regexp.MustCompile(`(?i)^how many (.+?) (?:are there in|are in|is in|fit in|go in|in|are|is|make|per) (.+)$`)
	unitJoint    = regexp.MustCompile(`(?i)\s*,?\s+(?:and|or)\s+(?:(?:in|to|into)\s+)?|\s*[,&]\s*`)
	separators   = regexp.MustCompile(`(?i) (?:in|to|into|as) `)
	lastNumber   = regexp.MustCompile(`^(.*?)([\d.,]+)\s*$`)
	startsNumber = regexp.MustCompile(`^[-+]?[\d.,]+\s*(\p{L}[\p{L} ]*)$`)
)

// convert answers a request such as "10 km in miles". It returns false when the request is no conversion.
func convert(request string) (string, bool, error) {
	request = plainConversion(request)
	seps := separators.FindAllStringIndex(request, -1)
	// Overlapping separators, as in "5 in in cm", are found only from the right.
	for i := len(request) - 1; i > 0; i-- {
		if loc := separators.FindStringIndex(request[i:]); loc != nil && loc[0] == 0 {
			seps = append(seps, []int{i, i + loc[1]})
			break
		}
	}
	for n := len(seps) - 1; n >= max(0, len(seps)-maxSeparators); n-- {
		left, right := strings.TrimSpace(request[:seps[n][0]]), strings.TrimSpace(request[seps[n][1]:])
		if all := unitList(right); all != nil {
			var lines []string
			for _, name := range all {
				line, ok, err := convert(left + request[seps[n][0]:seps[n][1]] + name)
				if err != nil || !ok {
					return "", ok, err
				}
				lines = append(lines, line)
			}
			return strings.Join(lines, "\n"), true, nil
		}
		to, toKnown := lookupUnit(right)
		q, from, ok, err := quantity(left)
		switch {
		case !ok && toKnown && startsNumber.MatchString(left):
			return "", true, fmt.Errorf("unknown unit %q", shorten(startsNumber.FindStringSubmatch(left)[1]))
		case !ok:
			continue
		case !toKnown && onlyWords(right):
			return "", true, fmt.Errorf("unknown unit %q", shorten(right))
		case !toKnown:
			continue
		case err != nil:
			return "", true, err
		case from.dimension != to.dimension:
			return "", true, fmt.Errorf("%s is a %s and %s a %s: one cannot be converted into the other", shorten(left), from.dimension, shorten(right), to.dimension)
		}
		v := q.Quo(q.Sub(q, to.zero), to.size)
		if bare := withoutArticle(left); bare != "" {
			if _, ok := lookupUnit(bare); ok {
				left = "1 " + bare
			}
		}
		return equation(left, v, right), true, nil
	}
	return "", false, nil
}

// plainConversion turns "how many pounds are 5 kg" into "5 kg in pounds".
func plainConversion(request string) string {
	if m := howMany.FindStringSubmatch(request); m != nil {
		request = m[2] + " in " + m[1]
	}
	return convertWords.ReplaceAllString(request, "")
}

// unitList returns the names in a list of units, such as "m, cm and mm"; nil when it is none.
func unitList(s string) []string {
	if len(s) > maxParts*maxUnit {
		return nil
	}
	all := unitJoint.Split(s, maxParts+1)
	if len(all) < 2 || len(all) > maxParts || slices.ContainsFunc(all, func(name string) bool { return !IsUnit(name) }) {
		return nil
	}
	return all
}

// quantity parses numbers with units, such as "5 ft 11 in", and returns their sum in base units. It returns false when s is no quantity; the error is
// about a number in it.
func quantity(s string) (*big.Rat, unit, bool, error) {
	total := new(big.Rat)
	var first unit
	for parts := 0; ; parts++ {
		rest, u, ok := unitSuffix(s)
		if !ok || (parts > 0 && (u.dimension != first.dimension || u.dimension == "temperature")) {
			return nil, unit{}, false, nil
		}
		first = u
		rest = withoutArticle(rest)
		v, err := big.NewRat(1, 1), error(nil)
		if rest != "" {
			v, err = evaluate(rest)
		}
		before := ""
		if err != nil {
			m := lastNumber.FindStringSubmatch(rest)
			if m == nil {
				return nil, unit{}, false, nil
			}
			before = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(m[1]), " and"), ",")
			if _, _, ok := unitSuffix(before); !ok { // a single number that cannot be computed
				return nil, u, strings.IndexFunc(rest, unicode.IsLetter) < 0, err
			}
			if v, err = evaluate(m[2]); err != nil {
				return nil, u, true, err
			}
		}
		v = new(big.Rat).Mul(v, u.size)
		total.Add(total, v.Add(v, u.zero))
		if total.Num().BitLen() > maxBits || total.Denom().BitLen() > maxBits {
			return nil, u, true, errTooLarge
		}
		if before == "" {
			return total, u, true, nil
		}
		s = before
	}
}

// unitSuffix returns the longest unit at the end of s, and the text before it.
func unitSuffix(s string) (string, unit, bool) {
	s = strings.TrimSpace(s)
	for i := range s {
		if len(s)-i > maxUnit {
			continue
		}
		if r, _ := utf8.DecodeLastRuneInString(s[:i]); i > 0 && unicode.IsLetter(r) {
			continue
		}
		if u, ok := lookupUnit(s[i:]); ok && s[i] != ' ' {
			return strings.TrimSpace(s[:i]), u, true
		}
	}
	return "", unit{}, false
}

func withoutArticle(s string) string {
	for _, a := range []string{"a", "an", "one", "the"} {
		if strings.EqualFold(s, a) {
			return ""
		}
		if len(s) > len(a) && strings.EqualFold(s[:len(a)+1], a+" ") {
			return strings.TrimSpace(s[len(a):])
		}
	}
	return s
}

func onlyWords(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && r != ' ' && r != '/' }) < 0
}
