package calc

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// numerals are the words that the name of a whole number is made of. Those from scales on multiply what stands before them.
var numerals = map[string]int64{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
	"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
	"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
	"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000,
}

// inWords matches the name of a whole number, "twenty-three" or "two hundred and five thousand", or a number of millions and the like: "2.5 million".
var inWords = func() string {
	between := func(least, most int64) string {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(numerals)), func(w string) bool { return numerals[w] < least || numerals[w] > most })
		return "(?:" + strings.Join(names, "|") + ")"
	}
	small := "(?:" + between(20, 90) + "(?:[- ]" + between(1, 9) + ")?|" + between(1, 19) + ")"
	group := "(?:(?:" + small + " )?hundred(?:(?: and)? " + small + ")?|" + small + ")"
	scale := between(1_000, 1_000_000_000)
	return "(?:" + group + "(?: " + scale + "(?:(?: and)? " + group + ")?)*|" + `(?:\d+(?:\.\d+)? )?` + scale + ")"
}()

var isNumeral = regexp.MustCompile("^" + inWords + "$")

// numeral returns the number that a match of inWords is.
func numeral(name string) *big.Rat {
	total, group := new(big.Rat), new(big.Rat) // group is what the next scale multiplies
	for _, w := range strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' }) {
		n, known := numerals[w]
		v := new(big.Rat).SetInt64(n)
		switch {
		case n >= 100:
			if group.Sign() > 0 {
				v.Mul(v, group)
			}
			group.SetInt64(0)
			if n == 100 {
				group = v
			} else {
				total.Add(total, v)
			}
		case known:
			group.Add(group, v)
		case w != "and":
			group.SetString(w)
		}
	}
	return total.Add(total, group)
}
