package clock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// untilTime is what asks how long it is until a time of day: until 18:00, 6 pm, noon.
var untilTime = regexp.MustCompile(`(?i)\b(?:until|till|til|before|to)\s+(?:(\d{1,2})(?:[:.](\d\d))?(?:\s?([ap])\.?m\b\.?|\s?(?:h|o[’']?clock)\b)?|(noon)|(midnight))(?:\s|[?!.,]|$)`)

// howLong is what such a question begins with.
var howLong = regexp.MustCompile(`(?i)^\s*(?:how (?:long|much time|many (?:hours|minutes))\b|time (?:left|until)\b)`)

// clockTime is a time of day in a question.
type clockTime struct{ hour, minute int }

// timesIn returns the times of day until which a text asks how long it is, and the rest of the text.
func timesIn(text string) (found []clockTime, rest string) {
	if !howLong.MatchString(text) {
		return nil, text
	}
	rest = text
	for _, m := range untilTime.FindAllStringSubmatch(text, maxDates) {
		t := clockTime{}
		switch {
		case m[4] != "":
			t.hour = 12
		case m[5] != "": // 0:00
		default:
			t.hour, _ = strconv.Atoi(m[1])
			t.minute, _ = strconv.Atoi(m[2])
			if half := m[3]; half != "" {
				if t.hour < 1 || t.hour > 12 {
					continue
				}
				if t.hour %= 12; half == "p" || half == "P" {
					t.hour += 12
				}
			}
		}
		if t.hour < 24 && t.minute < 60 && !slices.Contains(found, t) {
			found = append(found, t)
		}
	}
	if len(found) > 0 {
		rest = untilTime.ReplaceAllString(text, " ")
	}
	return found, rest
}

// tellUntil returns a line for each place, or for here without any, and each time: how long it is until the clocks there show it.
func tellUntil(times []clockTime, found []place, now time.Time) []string {
	if len(found) == 0 {
		found = []place{here(now)}
	}
	var lines []string
	for _, p := range found {
		there := now.In(p.zone)
		for _, t := range times {
			at := time.Date(there.Year(), there.Month(), there.Day(), t.hour, t.minute, 0, 0, p.zone)
			day := ""
			if !at.After(there) {
				at, day = time.Date(there.Year(), there.Month(), there.Day()+1, t.hour, t.minute, 0, 0, p.zone), " tomorrow"
			}
			lines = append(lines, fmt.Sprintf("%s: it is %s until %s%s.", p, hours(at.Sub(there)), at.Format("15:04"), day))
		}
	}
	return lines
}

// hours writes a duration as people say it, in whole minutes.
func hours(d time.Duration) string {
	h, m := int(d.Hours()), int(d.Minutes())%60
	switch {
	case h == 0 && m == 0:
		return "less than a minute"
	case h == 0:
		return strconv.Itoa(m) + " min"
	case m == 0:
		return strconv.Itoa(h) + " h"
	}
	return fmt.Sprintf("%d h %d min", h, m)
}
