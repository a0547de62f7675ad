package clock

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read only: days that are said by their distance from today.
var (
	// weekdayOf is "next friday": the first one after today; "last friday" is the one before, and today counts for "this" and "on".
	weekdayOf = regexp.MustCompile(`(?i)\b(next|this|coming|last|on) (sun|mon|tues|wednes|thurs|fri|satur)day\b`)
	awayFrom  = regexp.MustCompile(`(?i)\b(?:in (a|[a-z]{3,5}|\d{1,5}) (day|week)s?|(a|[a-z]{3,5}|\d{1,5}) (day|week)s? (ago|from (?:now|today)))\b`)
	dayAfter  = regexp.MustCompile(`(?i)\bday (after tomorrow|before yesterday)\b`)
	// smallNumbers are written as words.
	smallNumbers = strings.Fields("a one two three four five six seven eight nine ten")
	weekdays     = strings.Fields("sun mon tues wednes thurs fri satur")
)

// days is a distance from today: to a weekday, or of a number of days.
type days struct {
	weekday string // "" for n days
	which   string // before it: "next", "last"
	n       int
}

// after returns the day at that distance from today.
func (d *days) after(today time.Time) time.Time {
	if d.weekday == "" {
		return today.AddDate(0, 0, d.n)
	}
	n := (slices.Index(weekdays, d.weekday) - int(today.Weekday()) + 7) % 7
	switch {
	case d.which == "last":
		n -= 7
	case n == 0 && d.which == "next":
		n = 7
	}
	return today.AddDate(0, 0, n)
}

// daysIn returns the days in a text that are said by their distance from today.
func daysIn(text string) []date {
	var found []date
	for _, m := range weekdayOf.FindAllStringSubmatchIndex(text, maxDates) {
		found = append(found, date{at: m[0], end: m[1], from: &days{weekday: strings.ToLower(text[m[4]:m[5]]), which: strings.ToLower(text[m[2]:m[3]])}})
	}
	for _, m := range awayFrom.FindAllStringSubmatchIndex(text, maxDates) {
		count, unit, ago := m[2:4], m[4:6], false
		if m[6] >= 0 {
			count, unit, ago = m[6:8], m[8:10], strings.EqualFold(text[m[10]:m[11]], "ago")
		}
		n, err := strconv.Atoi(text[count[0]:count[1]])
		if err != nil {
			if n = slices.Index(smallNumbers, strings.ToLower(text[count[0]:count[1]])); n < 0 {
				continue // "many days ago"
			}
			n = max(n, 1) // "a"
		}
		if strings.EqualFold(text[unit[0]:unit[1]], "week") {
			n *= 7
		}
		if ago {
			n = -n
		}
		found = append(found, date{at: m[0], end: m[1], from: &days{n: n}})
	}
	for _, m := range dayAfter.FindAllStringSubmatchIndex(text, maxDates) {
		n := 2
		if strings.EqualFold(text[m[2]:m[2]+6], "before") {
			n = -2
		}
		found = append(found, date{at: m[0], end: m[1], from: &days{n: n}})
	}
	return found
}
