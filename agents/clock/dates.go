package clock

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxDates = 10 // what exceeds it is ignored

// Read only.
var (
	months    = strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	month     = `(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?`
	dayNumber = `(\d{1,2})(?:st|nd|rd|th)?`
	dayFirst  = regexp.MustCompile(`(?i)\b` + dayNumber + `(?: of)? ` + month + `(?:,? (\d{4}))?\b`)
	dayLast   = regexp.MustCompile(`(?i)\b` + month + ` ` + dayNumber + `(?:,? (\d{4}))?\b`)
	isoDate   = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})\b`)
	feast     = regexp.MustCompile(`(?i)\b(?:(christmas|xmas)|(halloween)|new year)(?:['’]?s)?( eve)?(?: day)?\b`)
	// yearsEnd is the last day of this year, in words.
	yearsEnd = regexp.MustCompile(`(?i)\b(?:(?:the )?end of|(?:left|remaining|remain|still) in) (?:the|this) (?:current )?year\b|\b(?:left|remaining|remain) this year\b`)
	// pastDate is what asks for a date that has been, when its year is not said.
	pastDate = regexp.MustCompile(`(?i)\b(?:since|ago|was|were|last)\b`)
	// aSpan is what asks for what lies between two dates.
	aSpan = regexp.MustCompile(`(?i)\b(?:between|from)\b`)
)

// inHowMany begins a question about a date; no place follows its "in".
var inHowMany = regexp.MustCompile(`(?i)\bin how many (?:days|weeks)\b`)

// date is a day in the text. Without a year it is in the year 0.
type date struct {
	at, end int // in the text
	year    int
	month   time.Month
	day     int
	from    *days // a day that is said by its distance from today; nothing else is set then
}

// datesIn returns the dates in a text, in their order, and the rest of the text.
func datesIn(text string) (found []date, rest string) {
	put := func(d date) {
		if len(found) < maxDates && !slices.ContainsFunc(found, func(o date) bool { return o.at < d.end && d.at < o.end }) {
			found = append(found, d)
		}
	}
	add := func(m []int, year, month string, day string) {
		d := date{at: m[0], end: m[1]}
		d.year, _ = strconv.Atoi(year)
		if d.month = time.Month(slices.Index(months, strings.ToLower(month[:min(3, len(month))])) + 1); d.month == 0 {
			n, _ := strconv.Atoi(month)
			d.month = time.Month(n)
		}
		d.day, _ = strconv.Atoi(day)
		put(d)
	}
	group := func(m []int, n int) string {
		if m[2*n] < 0 {
			return ""
		}
		return text[m[2*n]:m[2*n+1]]
	}
	for _, m := range isoDate.FindAllStringSubmatchIndex(text, maxDates) {
		add(m, group(m, 1), group(m, 2), group(m, 3))
	}
	for _, m := range dayFirst.FindAllStringSubmatchIndex(text, maxDates) {
		add(m, group(m, 3), group(m, 2), group(m, 1))
	}
	for _, m := range dayLast.FindAllStringSubmatchIndex(text, maxDates) {
		add(m, group(m, 3), group(m, 1), group(m, 2))
	}
	for _, m := range feast.FindAllStringSubmatchIndex(text, maxDates) {
		switch christmas, eve := m[2] >= 0, m[6] >= 0; {
		case m[4] >= 0:
			add(m, "", "oct", "31")
		case christmas && eve:
			add(m, "", "dec", "24")
		case christmas:
			add(m, "", "dec", "25")
		case eve:
			add(m, "", "dec", "31")
		default:
			add(m, "", "jan", "1")
		}
	}
	for _, m := range yearsEnd.FindAllStringSubmatchIndex(text, maxDates) {
		add(m, "", "dec", "31")
	}
	for _, d := range daysIn(text) {
		put(d)
	}
	slices.SortFunc(found, func(a, b date) int { return cmp.Compare(a.at, b.at) })
	from := 0
	for _, d := range found {
		rest += text[from:d.at] + " "
		from = d.end
	}
	return found, rest + text[from:]
}

// dayOf returns the day that d is for somebody whose today it is: where it has no year the next one, or the last one if it has been. It reports false
// when there is no such day.
func (d date) dayOf(today time.Time, past bool) (time.Time, bool) {
	if d.from != nil {
		return d.from.after(today), true
	}
	years := []int{d.year}
	if d.year == 0 {
		years = nil
		for i := range 9 { // 29 February is missing for at most 8 years
			if past {
				i = -i
			}
			years = append(years, today.Year()+i)
		}
	}
	for _, y := range years {
		day := time.Date(y, d.month, d.day, 0, 0, 0, 0, time.UTC)
		passed := d.year == 0 && (!past && day.Before(today) || past && day.After(today))
		if day.Month() == d.month && !passed {
			return day, true
		}
	}
	return time.Time{}, false
}

const dayLayout = "2 January 2006"

// tellDates returns a line for each date: its weekday, and how far it is away from now; and how far two of them are apart. Where now is counts.
// Without a year they are those next to come, or last when past; the second one of a span follows the first.
func tellDates(dates []date, past, span bool, now time.Time) []string {
	y, m, d := now.Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	var lines []string
	var days []time.Time
	for i, d := range dates {
		from := today
		if i == 1 && len(dates) == 2 && len(days) == 1 && d.year == 0 && d.from == nil && span {
			from = days[0] // "between 1 May and 15 June" is one span, in a year
		}
		day, ok := d.dayOf(from, past)
		if !ok {
			lines = append(lines, "There is no such date in that month.")
			continue
		}
		days = append(days, day)
		line := day.Format(dayLayout)
		switch n := daysFrom(today, day); {
		case n == 0:
			line += " is today, a " + day.Weekday().String() + "."
		case n > 0:
			line += fmt.Sprintf(" is a %s, in %s.", day.Weekday(), countDays(n))
		default:
			line += fmt.Sprintf(" was a %s, %s ago.", day.Weekday(), countDays(-n))
		}
		lines = append(lines, line)
	}
	if len(days) == 2 {
		a, b := days[0], days[1]
		if b.Before(a) {
			a, b = b, a
		}
		lines = append(lines, "From "+a.Format(dayLayout)+" to "+b.Format(dayLayout)+" it is "+countDays(daysFrom(a, b))+".")
	}
	return lines
}

// daysFrom returns the number of days from a to b, which are beginnings of days in UTC; their difference in time would overflow after 292 years.
func daysFrom(a, b time.Time) int { return int((b.Unix() - a.Unix()) / (24 * 60 * 60)) }

func countDays(n int) string {
	if n == 1 {
		return "1 day"
	}
	return strconv.Itoa(n) + " days"
}
