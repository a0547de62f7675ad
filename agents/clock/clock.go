// Package clock tells the time and date in any time zone or large city, from requests in everyday words.
package clock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	_ "time/tzdata" // for machines without a time zone database
)

// Bounds of a request; what exceeds them is ignored.
const (
	maxText   = 4000 // bytes
	maxPlaces = 20
)

// Answer returns the time and date at now in every place that text names, a line each, and in now's own zone when it names none.
// Who asks which week it is gets the week of ISO 8601, too. For tomorrow or yesterday it returns that date; of a date it tells the weekday and how far it is away; for any other time it says that it only knows
// the present one. It takes an unknown place for the known one whose name is nearly the same, and says so; it adds a line for those without any. When no
// place is known, it returns an error that names them.
func Answer(text string, now time.Time) (string, error) {
	if len(text) > maxText {
		text = text[:maxText]
	}
	dates, asked := datesIn(text)
	times, asked := timesIn(asked)
	found, unknown := places(anotherTime.ReplaceAllString(inHowMany.ReplaceAllString(asked, " "), " "))
	found, unknown, taken := nearlyNamed(found, unknown)
	if len(found) == 0 && len(unknown) > 0 {
		return "", errors.New(dontKnow(unknown) + "; name a large city, or a time zone such as Europe/Berlin or UTC+2")
	}
	var lines []string
	if len(dates) > 0 {
		past := pastDate.MatchString(asked)
		span := !past && aSpan.MatchString(asked)
		for _, p := range found {
			for _, line := range tellDates(dates, past, span, now.In(p.zone)) {
				lines = append(lines, p.String()+": "+line)
			}
		}
		if len(found) == 0 {
			lines = tellDates(dates, past, span, now)
		}
	} else if len(times) > 0 {
		lines = tellUntil(times, found, now)
	} else {
		lines = tellTimes(asked, found, now)
	}
	lines = append(lines, taken...)
	if len(unknown) > 0 {
		lines = append(lines, dontKnow(unknown)+".")
	}
	return strings.Join(lines, "\n"), nil
}

// tellTimes returns a line for each place, or for here without any, and what else a text without dates asks about their times.
func tellTimes(text string, found []place, now time.Time) []string {
	day, days := "", 0
	switch m := anotherDay.FindStringSubmatch(text); {
	case m == nil || isItNow.MatchString(text):
	case m[1] != "":
		day, days = "tomorrow", 1
	default:
		day, days = "yesterday", -1
	}
	tell := func(p place) string {
		line, at := p.String()+": "+p.format(now), now.In(p.zone).AddDate(0, 0, days)
		if day != "" {
			line = p.String() + ", " + day + ": " + at.Format("Monday, 2 January 2006")
		}
		if asksWeek.MatchString(text) {
			_, week := at.ISOWeek()
			line += ", week " + strconv.Itoa(week)
		}
		return line
	}
	if len(found) == 0 {
		found = append(found, here(now))
	}
	var lines []string
	for _, p := range found {
		lines = append(lines, tell(p))
	}
	if len(found) == 2 && apart.MatchString(text) {
		lines = append(lines, found[1].ahead(found[0], now))
	}
	if anotherTime.MatchString(text) {
		lines = append(lines, "That is now: I do not know about other times.")
	}
	return lines
}

// HasPlace reports whether a text names a place whose time Answer knows.
func HasPlace(text string) bool {
	found, _ := places(text[:min(len(text), maxText)])
	return len(found) > 0
}

// HasDate reports whether a text has a date, or a day by its distance from today.
func HasDate(text string) bool {
	dates, _ := datesIn(text[:min(len(text), maxText)])
	return len(dates) > 0
}

// Names reports whether text is the name of a place whose time Answer knows, or of several, and nothing more.
func Names(text string) bool {
	words := split(text)
	ix := index()
	for len(words) > 0 {
		n, _ := ix.match(words)
		if n == 0 {
			return false
		}
		words = words[n:]
		if len(words) == 0 {
			return true
		}
	}
	return false
}

var (
	apart       = regexp.MustCompile(`(?i)\b(?:difference|differ|apart|between|ahead|behind|earlier|later)\b`)
	isItNow     = regexp.MustCompile(`(?i)^\W*(?:so )?(?:is|was|will) it\b`) // tomorrow in Auckland: that is about the time there
	asksWeek    = regexp.MustCompile(`(?i)\b(?:(?:what|which|calendar|iso) week(?: number)?|week number|number of the week|week of the year)\b`)
	anotherDay  = regexp.MustCompile(`(?i)\b(?:(tomm?orr?ow)|yest[ae]rday)\b`)
	anotherTime = regexp.MustCompile(`(?i)\b\d{1,2}(?:[:.]\d\d)? ?[ap]\.?m\b|(?:^|\s)\d{1,2}:\d\d\b|\b(?:noon|midnight|(?:hours?|minutes?|days?|weeks?|months?|years?) (?:ago|from now|before|after))\b|` +
		`\bin (?:an?|\d+|two|three|four|five|six|seven|eight|nine|ten|half an|a few|a couple of) (?:hours?|minutes?|days?|weeks?|months?|years?)\b|\b(?:next|last|on) (?:week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b`)
)

func dontKnow(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return "I know no place called " + strings.Join(quoted, " or ")
}

// nearlyNamed moves the unknown names to the places that are found whose names are nearly the same, and returns a line for each.
func nearlyNamed(found []place, unknown []string) (all []place, strange, taken []string) {
	for _, name := range unknown {
		near := index().nearest(fold(name))
		if near == "" {
			strange = append(strange, name)
			continue
		}
		taken = append(taken, "I took "+strconv.Quote(name)+" for "+near+".")
		_, ps := index().match(split(near))
		found = withPlaces(found, ps)
	}
	return found, strange, taken
}

// withPlaces adds places to those that were found, each once.
func withPlaces(found, more []place) []place {
	for _, p := range more {
		if len(found) < maxPlaces && !slices.ContainsFunc(found, func(q place) bool { return p.name == q.name && p.sameZone(q) }) {
			found = append(found, p)
		}
	}
	return found
}

// place is a place whose time is requested.
type place struct {
	name  string // as people write it
	zone  *time.Location
	local bool // it is where now is local
}

// here returns the place where now is local.
func here(now time.Time) place {
	zone, offset := now.Zone()
	switch {
	case offset == 0 && zone == "UTC":
		return place{name: zone, zone: time.UTC}
	case strings.ContainsFunc(zone, unicode.IsDigit): // it has no name
		return place{name: "Local time", zone: now.Location(), local: true}
	}
	return place{name: "Local time (" + zone + ")", zone: now.Location(), local: true}
}

func (p place) String() string {
	if p.local || p.zone.String() == p.name {
		return p.name
	}
	return p.name + " (" + p.zone.String() + ")"
}

// ahead returns by how much the clocks at p are ahead of those at q.
func (p place) ahead(q place, now time.Time) string {
	_, there := now.In(p.zone).Zone()
	_, here := now.In(q.zone).Zone()
	by, how := time.Duration(there-here)*time.Second, " ahead of "
	switch {
	case by == 0:
		return p.name + " and " + q.name + " have the same time."
	case by < 0:
		by, how = -by, " behind "
	}
	text := strconv.Itoa(int(by.Hours())) + " h"
	if m := int(by.Minutes()) % 60; m != 0 {
		text += " " + strconv.Itoa(m) + " min"
	}
	return p.name + " is " + text + how + q.name + "."
}

func (p place) sameZone(q place) bool { return p.zone.String() == q.zone.String() }

// format formats the time there for people; Go's own layouts have no "UTC+09:00". The offset is left out where the place is named by it.
func (p place) format(now time.Time) string {
	layout := "15:04:05 on Monday, 2 January 2006, UTC-07:00"
	if strings.HasPrefix(p.name, "UTC") {
		layout = strings.TrimSuffix(layout, ", UTC-07:00")
	}
	return now.In(p.zone).Format(layout)
}

// word is a word of a request, with the form for looking up names.
type word struct {
	plain string // folded
	raw   string
	brk   bool // it begins another item, after "," or "and"
	and   bool // after "and" or a word like it
}

// utcOffset matches a zone given by its offset.
var utcOffset = regexp.MustCompile(`^(?:utc|gmt)?([+-])(\d{1,2})(?::?(\d\d))?$`)

// places returns the places that text names, and names that seem to be unknown places.
func places(text string) (found []place, unknown []string) {
	words := split(text)
	ix := index()
	known := make([]bool, len(words))
	var last []place // what the words before name
	for i := 0; i < len(words); {
		n, ps := ix.match(words[i:])
		if n == 0 {
			if words[i].and || !slices.Contains(before, words[i].plain) {
				last = nil
			}
			i++
			continue
		}
		if !words[i].and && ix.regions[phrase(words[i:i+n])] && slices.ContainsFunc(ps, func(p place) bool { return slices.ContainsFunc(last, p.sameZone) }) {
			ps = nil // it says where the place before is: "Berlin, Germany"
		}
		found = withPlaces(found, ps)
		if ps != nil {
			last = ps
		}
		for range n {
			known[i] = true
			i++
		}
	}
	strange, doubtful := unmatched(words, known)
	if len(found) == 0 {
		strange = append(strange, doubtful...)
	}
	return found, strange
}

// unmatched returns phrases that should be places but are unknown: strange ones follow "in"; doubtful ones follow "at" or "for".
func unmatched(words []word, known []bool) (strange, doubtful []string) {
	for i := 0; i < len(words); {
		to := &strange
		switch words[i].plain {
		case "in":
		case "at", "for", "on":
			to = &doubtful
		default:
			i++
			continue
		}
		on := words[i].plain == "on"
		var phrase []string
		hasKnown, afterKnown := false, false
		flush := func() {
			name := strings.Join(phrase, " ")
			isState := afterKnown && len(name) <= 3 // as in "Portland, ME"
			if on && strings.ContainsFunc(name, unicode.IsDigit) {
				name = "" // a date
			}
			if name != "" && !hasKnown && !isState && len(*to) < maxPlaces {
				*to = append(*to, cut(name))
			}
			phrase, hasKnown, afterKnown = nil, false, hasKnown
		}
		for i++; i < len(words) && !slices.Contains(before, words[i].plain); i++ {
			if words[i].brk {
				flush()
			}
			hasKnown = hasKnown || known[i]
			if !slices.Contains(fillers, words[i].plain) && (len(phrase) > 0 || meantWord(words[i].plain) == "") {
				phrase = append(phrase, words[i].raw)
			}
		}
		flush()
	}
	return strange, doubtful
}

var (
	// before are the words that a place follows.
	before = []string{"in", "at", "for", "on"}
	// fillers are words that are no part of a place's name where one is expected.
	fillers = strings.Fields(`a an the this that now right currently current present please today tomorrow yesterday moment time times date day
		week weekday hour hours local zone timezone zones timezones city of town country capital both is it what whats be there
		here me us you my your place places world around respectively 12 24 12h 24h format clock english words iso also too same tell
		give show then`)
)

// split splits text into words. It sets brk for a word that begins another item.
func split(text string) []word {
	var out []word
	brk, and := false, false
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		for part := range strings.SplitAfterSeq(f, ",") {
			ends := strings.ContainsAny(part, ",;?!&")
			raw := strings.Trim(part, ",;:?!.&()[]{}\"'“”‘’„*`<>")
			plain := fold(raw)
			switch plain {
			case "":
				brk = brk || ends
				continue
			case "and", "or", "vs", "versus", "than", "&", "plus":
				brk, and = true, true
				continue
			}
			out = append(out, word{plain: plain, raw: raw, brk: brk, and: and})
			and = false
			brk = ends || strings.HasSuffix(part, ".") && len(raw) > 3
		}
	}
	return out
}

func cut(s string) string {
	r := []rune(s)
	if len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// offsetZone returns the zone of a word such as "UTC+5:30".
func offsetZone(w string) (place, bool) {
	m := utcOffset.FindStringSubmatch(w)
	if m == nil || (len(w) < 6 && !strings.HasPrefix(w, "utc") && !strings.HasPrefix(w, "gmt")) {
		return place{}, false
	}
	h, _ := strconv.Atoi(m[2])
	minutes, _ := strconv.Atoi(m[3])
	if h > 14 || minutes > 59 {
		return place{}, false
	}
	seconds := h*3600 + minutes*60
	if m[1] == "-" {
		seconds = -seconds
	}
	name := fmt.Sprintf("UTC%s%02d:%02d", m[1], h, minutes)
	return place{name: name, zone: time.FixedZone(name, seconds)}, true
}
