package clock

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Read only: the words that a request to Answer is made of, besides the names of places. Other words are about something that Answer does not know.
var (
	// timeWords name what is asked for.
	timeWords = strings.Fields(`time times timezone timezones zone zones clock clocks hour hours date dates day days weekday weekdays week weeks year month today todays tomorrow tomorow tomorrows yesterday now
		monday tuesday wednesday thursday friday saturday sunday morning afternoon evening night daytime nighttime weekend late early utc gmt`)
	// aroundTime are words of a question about it.
	aroundTime = strings.Fields(`what whats what's which when when's is isn't it it's its are was were will be do does did you u i we know have has tell give show say see check get find me us
		can could would should will please pls plz plese pleas need want like to know the a an this right rn atm current currently local exact exactly precise actual actually
		of in at for on from over there here and or also as well same so just now still already yet then too number iso calendar between difference differ
		these following cities places towns countries nowadays ahead behind earlier later than apart hey hi hello ok okay thanks thank thx am pm sharp anyway again my your our much far world around moment present city town country
		capital state both respectively format english if next last after before ago noon midnight long minutes minute months years how many part count since till until left more remain remaining gone past`)
	// ofDates are those of them that ask for the time by a date alone: "when is Christmas?", "until 5 May".
	ofDates = strings.Fields("when when's how until till since")
	// ofPlaces are what is asked for in a place, also in one whose name is written in small letters.
	ofPlaces = strings.Fields("time date day today tomorrow clock timezone zone hour monday tuesday wednesday thursday friday saturday sunday morning night")
	// atOnce are those of them that ask for nothing when they are all there is with a word of time: "this time", "and now".
	atOnce = strings.Fields("now day days night morning afternoon evening late early times hours weekend monday tuesday wednesday thursday friday saturday sunday")
)

// Reads reports whether Answer knows what all of text asks for: each of its words is about the time or a date, or names a place. A name behind "in" that
// is no place that Answer knows is one, too: Answer says that it does not know it.
func Reads(text string) bool { return read(text) != nil }

// Understands reports whether Reads holds for a text, and it asks for the time or a date by a word for it.
func Understands(text string) bool {
	said := read(text)
	if len(said) > 1 && (said[1] == "a" || said[1] == "an") {
		return false // "what a day"
	}
	return slices.ContainsFunc(said, func(w string) bool {
		return slices.Contains(timeWords, w) && (len(said) > 1 || !slices.Contains(atOnce, w))
	}) || len(said) > 1 && slices.Contains(said, "") && slices.ContainsFunc(said, func(w string) bool { return slices.Contains(ofDates, w) })
}

// read returns the words of a request that are no names of places, corrected, and "" for each date and name that it has; nil when one of them is none of a request.
func read(text string) []string {
	if len(text) > maxText {
		return nil
	}
	dates, rest := datesIn(text)
	times, rest := timesIn(rest)
	rest = anotherTime.ReplaceAllString(rest, " ")
	said := make([]string, 0, 8)
	for range len(dates) + len(times) {
		said = append(said, "") // a date alone asks for nothing
	}
	if slices.ContainsFunc(dates, func(d date) bool { return d.from != nil }) {
		said = append(said, "when") // "next Friday" asks for its date
	}
	words := split(rest)
	known := 0 // the word behind the last known place
	for i := 0; i < len(words); {
		if n, _ := index().match(words[i:]); n > 0 {
			i += n
			known = i
			continue
		}
		w := words[i].plain
		switch meant := meantWord(w); {
		case meant != "":
			said = append(said, meant)
		case i > 0 && i == known && words[i].brk && !words[i].and && (i == len(words)-1 || unicode.IsUpper([]rune(words[i].raw)[0])): // "Sydney, Australia"
		case i > 0 && mayBePlace(words[i-1], words[i], i == len(words)-1 && slices.ContainsFunc(said, func(w string) bool { return slices.Contains(ofPlaces, w) })):
			for i++; i < len(words) && !words[i].brk && meantWord(words[i].plain) == ""; i++ {
			}
			said = append(said, "")
			continue
		default:
			return nil
		}
		i++
	}
	if len(said) == 0 && len(words) == 0 || slices.Contains(said, "how") && slices.Contains(said, "know") {
		return nil
	}
	return said
}

var aMonth = regexp.MustCompile("^" + month + "$")

// mayBePlace reports whether a word is the name of a place that is not known: it stands behind "in", as the last word, or is written as a
// name behind that or another word that a place follows.
func mayBePlace(former, name word, last bool) bool {
	first, _ := utf8.DecodeRuneInString(name.raw)
	if !unicode.IsLetter(first) || aMonth.MatchString(name.plain) {
		return false
	}
	return (former.plain == "in" || former.plain == "on") && (last || unicode.IsUpper(first)) || unicode.IsUpper(first) && (slices.Contains(before, former.plain) || former.plain == "of" || former.and)
}

// meantWord returns the word of a request that is meant by w: w itself, or one that it lacks a letter of, or two letters of which changed places; ""
// when there is none.
func meantWord(w string) string {
	w = strings.ReplaceAll(w, "’", "'")
	for _, known := range [][]string{timeWords, aroundTime} {
		if slices.Contains(known, w) {
			return w
		}
	}
	if base, ok := strings.CutSuffix(w, "'s"); ok && slices.Contains(timeWords, base) {
		return base
	}
	for _, known := range [][]string{timeWords, aroundTime} {
		for _, k := range known {
			if len(w) > 2 && len(k) > 3 && w[0] == k[0] && w != "three" && slip(w, k) { // "three" is not "there"
				return k
			}
		}
	}
	return ""
}

// slip reports whether w is known without one of its letters, or with two neighbours exchanged.
func slip(w, known string) bool {
	i := 0
	for i < len(w) && i < len(known) && w[i] == known[i] {
		i++
	}
	switch len(known) - len(w) {
	case 1:
		return w[i:] == known[i+1:]
	case 0:
		return i+1 < len(w) && w[i] == known[i+1] && w[i+1] == known[i] && w[i+2:] == known[i+2:]
	}
	return false
}
