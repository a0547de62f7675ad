package clock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents/clock"
)

var now = time.Date(2026, 11, 20, 9, 5, 12, 0, time.UTC)

const (
	tokyo   = "Tokyo (Asia/Tokyo): 18:05:12 on Friday, 20 November 2026, UTC+09:00"
	newYork = "New York (America/New_York): 04:05:12 on Friday, 20 November 2026, UTC-05:00"
	berlin  = "Berlin (Europe/Berlin): 10:05:12 on Friday, 20 November 2026, UTC+01:00"
	utc     = "UTC: 09:05:12 on Friday, 20 November 2026"
	munich  = "Munich (Europe/Berlin): 10:05:12 on Friday, 20 November 2026, UTC+01:00"
	london  = "London (Europe/London): 09:05:12 on Friday, 20 November 2026, UTC+00:00"
	mumbai  = "Mumbai (Asia/Kolkata): 14:35:12 on Friday, 20 November 2026, UTC+05:30"
	chennai = "Chennai (Asia/Kolkata): 14:35:12 on Friday, 20 November 2026, UTC+05:30"
)

func TestAnswer(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"what time is it in Tokyo", []string{tokyo}},
		{"What's Tokyo's time?", []string{tokyo}},
		{"TOKYO", []string{tokyo}},
		{"date in New York", []string{newYork}},
		{"and in LA?", []string{"LA (America/Los_Angeles): 01:05:12 on Friday, 20 November 2026, UTC-08:00"}},
		{"in how many days is new year's eve?", []string{"31 December 2026 is a Thursday, in 41 days."}},
		{"how long until 18:00?", []string{"UTC: it is 8 h 54 min until 18:00."}},
		{"how many hours till 6 pm in Tokyo", []string{"Tokyo (Asia/Tokyo): it is 23 h 54 min until 18:00 tomorrow."}},
		{"how long is it until noon", []string{"UTC: it is 2 h 54 min until 12:00."}},
		{"time left until midnight", []string{"UTC: it is 14 h 54 min until 00:00 tomorrow."}},
		{"time in Europe/Berlin", []string{berlin}},
		{"time in europe/berlin", []string{berlin}},
		{"Tell me the time in Berlin, Germany, right now.", []string{berlin}},
		{"what day is it in Sydney", []string{"Sydney (Australia/Sydney): 20:05:12 on Friday, 20 November 2026, UTC+11:00"}},
		{"time in UTC", []string{utc}},
		{"what time is it?", []string{utc}},
		{"what week is it?", []string{utc + ", week 47"}},
		{"which week number is it in Tokyo", []string{tokyo + ", week 47"}},
		{"what week is it tomorrow", []string{"UTC, tomorrow: Saturday, 21 November 2026, week 47"}},
		{"what weekday is it?", []string{utc}},
		{"tell us the current time in 24h format", []string{utc}},
		{"", []string{utc}},
		{"Compare the time in Tokyo, new york and BERLIN", []string{tokyo, newYork, berlin}},
		// A line for each place, also of the same zone, but none for what only says where a place is.
		{"time in Berlin and Munich", []string{berlin, munich}},
		{"Mumbai and Chennai", []string{mumbai, chennai}},
		{"time in Chennai and in Mumbai", []string{chennai, mumbai}},
		{"time in Mumbai, Chennai and London", []string{mumbai, chennai, london}},
		{"time in Tokyo and in Japan", []string{tokyo, strings.Replace(tokyo, "Tokyo", "Japan", 1)}},
		{"time in Berlin, Germany, and London, UK", []string{berlin, london}},
		{"time in Berlin in Germany and in Munich", []string{berlin, munich}},
		{"time in New York, USA", []string{newYork}},
		{"time in Mumbai, in Mumbai and in Chennai", []string{mumbai, chennai}},
		{"time in Portland, Oregon, USA", []string{"Portland (America/Los_Angeles): 01:05:12 on Friday, 20 November 2026, UTC-08:00"}},
		{"time in Mumbai", []string{mumbai}},
		// A place with a better known namesake.
		{"what time is it in Paris, Texas?", []string{"Paris, Texas (America/Chicago): 03:05:12 on Friday, 20 November 2026, UTC-06:00"}},
		{"time in London Ontario and in London", []string{"London, Ontario (America/Toronto): 04:05:12 on Friday, 20 November 2026, UTC-05:00", london}},
		{"time in London and Ontario", []string{london, "Ontario (America/Toronto): 04:05:12 on Friday, 20 November 2026, UTC-05:00"}},
		{"time in sao paulo", []string{"São Paulo (America/Sao_Paulo): 06:05:12 on Friday, 20 November 2026, UTC-03:00"}},
		{"time in MÜNCHEN", []string{"München (Europe/Berlin): 10:05:12 on Friday, 20 November 2026, UTC+01:00"}},
		{"time in St. John's", []string{"St. John's (America/St_Johns): 05:35:12 on Friday, 20 November 2026, UTC-03:30"}},
		{"time in Washington, D.C.?", []string{"Washington (America/New_York): 04:05:12 on Friday, 20 November 2026, UTC-05:00"}},
		{"time in New Delhi", []string{"New Delhi (Asia/Kolkata): 14:35:12 on Friday, 20 November 2026, UTC+05:30"}},
		{"time in Asia/Calcutta", []string{"Asia/Calcutta: 14:35:12 on Friday, 20 November 2026, UTC+05:30"}},
		{"time at UTC+5:45", []string{"UTC+05:45: 14:50:12 on Friday, 20 November 2026"}},
		{"time in GMT-3", []string{"UTC-03:00: 06:05:12 on Friday, 20 November 2026"}},
		{"time in Portland, OR", []string{"Portland (America/Los_Angeles): 01:05:12 on Friday, 20 November 2026, UTC-08:00"}},
		{"time for their meeting in Tokyo", []string{tokyo}},
		{"waht day is tomorow", []string{"UTC, tomorrow: Saturday, 21 November 2026"}},
		{"what day is tomorrow?", []string{"UTC, tomorrow: Saturday, 21 November 2026"}},
		{"what was the date yesterday in Tokyo and in Berlin", []string{"Tokyo (Asia/Tokyo), yesterday: Thursday, 19 November 2026", "Berlin (Europe/Berlin), yesterday: Thursday, 19 November 2026"}},
		{"3 pm in Berlin is what in Tokyo?", []string{berlin, tokyo, "That is now: I do not know about other times."}},
		{"when it is noon in Tokyo, what time is it in Berlin?", []string{tokyo, berlin, "That is now: I do not know about other times."}},
		{"time difference between Berlin and Tokyo", []string{berlin, tokyo, "Tokyo is 8 h ahead of Berlin."}},
		{"how far is Tokyo ahead of Berlin?", []string{tokyo, berlin, "Berlin is 8 h behind Tokyo."}},
		{"time in Tokyo in 3 hours", []string{tokyo, "That is now: I do not know about other times."}},
		{"time in Tokyo in three hours", []string{tokyo, "That is now: I do not know about other times."}},
		{"and the day before?", []string{utc, "That is now: I do not know about other times."}},
		{"what day is next Friday?", []string{"27 November 2026 is a Friday, in 7 days."}},
		{"what's the date two weeks from today", []string{"4 December 2026 is a Friday, in 14 days."}},
		{"how many days between May 1 and June 15", []string{"1 May 2027 is a Saturday, in 162 days.", "15 June 2027 is a Tuesday, in 207 days.", "From 1 May 2027 to 15 June 2027 it is 45 days."}},
		{"day after tomorrow", []string{"22 November 2026 is a Sunday, in 2 days."}},
		{"what day was it 3 weeks ago", []string{"30 October 2026 was a Friday, 21 days ago."}},
		{"is it already tomorrow in Tokyo?", []string{tokyo}},
		{"is christmas on a weekend this year", []string{"25 December 2026 is a Friday, in 35 days."}},
		{"time at UTC+05:45", []string{"UTC+05:45: 14:50:12 on Friday, 20 November 2026"}},
		{"time in Tokyo and Atlantis", []string{tokyo, `I know no place called "Atlantis".`}},
		{"time in Tokyo and Berln", []string{tokyo, berlin, `I took "Berln" for Berlin.`}},
		{"waht time is it in Berln", []string{berlin, `I took "Berln" for Berlin.`}},
		{"time in Toyko", []string{tokyo, `I took "Toyko" for Tokyo.`}},
		{"whats the time in new yrok", []string{newYork, `I took "new yrok" for New York.`}},
		{"time in Berln, in Berlin and in Atlantis", []string{berlin, `I took "Berln" for Berlin.`, `I know no place called "Atlantis".`}},
		// Dates.
		{"how many days until christmas?", []string{"25 December 2026 is a Friday, in 35 days."}},
		{"how many days is it until New Year's Eve", []string{"31 December 2026 is a Thursday, in 41 days."}},
		{"what day of the week was 14 July 1789?", []string{"14 July 1789 was a Tuesday, 86691 days ago."}},
		{"What day is July 4th, 2030 in Tokyo?", []string{"Tokyo (Asia/Tokyo): 4 July 2030 is a Thursday, in 1322 days."}},
		{"how many days are left in this year?", []string{"31 December 2026 is a Thursday, in 41 days."}},
		{"days until the end of the year", []string{"31 December 2026 is a Thursday, in 41 days."}},
		{"days since 1 Jan", []string{"1 January 2026 was a Thursday, 323 days ago."}},
		{"when is 20 November", []string{"20 November 2026 is today, a Friday."}},
		{"is 2026-11-21 a saturday?", []string{"21 November 2026 is a Saturday, in 1 day."}},
		{"days between 2026-03-01 and 1 February 2026", []string{
			"1 March 2026 was a Sunday, 264 days ago.", "1 February 2026 was a Sunday, 292 days ago.", "From 1 February 2026 to 1 March 2026 it is 28 days.",
		}},
		{"what day is February 29?", []string{"29 February 2028 is a Tuesday, in 466 days."}},
		{"what day is 31 February", []string{"There is no such date in that month."}},
		{"what day is it on 5 May", []string{"5 May 2027 is a Wednesday, in 166 days."}},
	}
	for _, tt := range tests {
		got, err := clock.Answer(tt.text, now)
		if err != nil {
			t.Errorf("Answer(%q): %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, strings.Split(got, "\n")); diff != "" {
			t.Errorf("Answer(%q) (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestAnswerCountryOfManyZones(t *testing.T) {
	got, err := clock.Answer("time in the USA", now)
	if err != nil || strings.Count(got, "USA (America/") != 4 {
		t.Errorf("Answer = %q, %v, want four zones", got, err)
	}
}

// TestAnswerHere holds that without a place the time is the local one, and said once.
func TestAnswerHere(t *testing.T) {
	for zone, want := range map[*time.Location]string{
		time.FixedZone("CLT", -4*3600): "Local time (CLT): 05:05:12 on Friday, 20 November 2026, UTC-04:00",
		time.FixedZone("-04", -4*3600): "Local time: 05:05:12 on Friday, 20 November 2026, UTC-04:00",
		time.FixedZone("GMT", 0):       "Local time (GMT): 09:05:12 on Friday, 20 November 2026, UTC+00:00",
		time.FixedZone("UTC", 0):       utc,
	} {
		for _, text := range []string{"what time is it", "what time is it here?", "local time"} {
			if got, err := clock.Answer(text, now.In(zone)); err != nil || got != want {
				t.Errorf("Answer(%q) = %q, %v, want %q", text, got, err, want)
			}
		}
	}
	got, err := clock.Answer("what day is tomorrow?", now.In(time.FixedZone("NZDT", 13*3600)))
	if want := "Local time (NZDT), tomorrow: Saturday, 21 November 2026"; err != nil || got != want {
		t.Errorf("Answer = %q, %v, want %q", got, err, want)
	}
}

func TestAnswerUnknown(t *testing.T) {
	for text, want := range map[string]string{
		"What time is it in Atlantis?":       `I know no place called "Atlantis"; name`,
		"time in Middle Earth, or Atlantis":  `I know no place called "Middle Earth" or "Atlantis"; name`,
		"time on Mars":                       `I know no place called "Mars"; name`,
		"time in Europe/Atlantis":            `I know no place called "Europe/Atlantis"; name`,
		"time in Rme":                        `I know no place called "Rme"; name`,
		"time in ../../etc/passwd":           `I know no place called `,
		"time in " + strings.Repeat("x", 99): `I know no place called "` + strings.Repeat("x", 60) + `…"; name`,
	} {
		if got, err := clock.Answer(text, now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Answer(%q) = %q, %v, want an error %q", text, got, err, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"time in Tokyo", "in in in, in", "UTC+14:00 and utc-99", "a/b c/../d", "\xff in \xfe", "time in St. John's, D.C. and 'x'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := clock.Answer(text, now)
		if (err == nil) == (got == "") {
			t.Errorf("Answer(%q) = %q, %v: want either", text, got, err)
		}
		if len(got) > 20_000 || err != nil && len(err.Error()) > 20_000 {
			t.Errorf("Answer(%q) is %d bytes long", text, len(got))
		}
	})
}

func TestUnderstands(t *testing.T) {
	for text, want := range map[string]bool{
		"is it friday?": true, "Is today Monday": true, "is it friday now in New York and in Paris?": true,
		"": false, "is": false, "friday": false, "is it friday on mars?": true, "is Bob here on friday?": false, "is it raining": false, "what is the time": true, "wats the tim in dubai": true, "what time does the store open in Rome?": false, "good times": false, "how many days until summer": false, "is it already tomorrow in Auckland?": true, "what is the data in Rome": false, "say hello three times": false,
		"how many days until christmas?": true, "what day of the week was 14 July 1789?": true, "how many days are left until 5 May in Tokyo": true,
		"how long until 18:00": true, "how long is it till 9 am in Tokyo?": true, "how long until the movie at 18:00": false, "how long until 18:00 does Bob work": false,
		"what's today?": true, "what year is it in Tokyo": true, "which week is it": true, "what hour is it in Brazil?": true, "say me the hour of Madrid": true, "what is the hour in Rome": true, "the happy hour of Bob": false, "what a day": false, "what year is the car of Bob": false,
		"christmas": false, "next Friday": true, "what day is it in 3 weeks": true, "remind me in 3 days": false, "book a table for 5 May": false, "what happened on 14 July 1789?": false,
	} {
		if got := clock.Understands(text); got != want {
			t.Errorf("Understands(%q) = %t, want %t", text, got, want)
		}
	}
	if got, err := clock.Answer("time in Tokio and Praha", now); err != nil || strings.Contains(got, "no place") {
		t.Errorf("places by other names: %q, %v", got, err)
	}
	for _, text := range []string{"what day is it on the world clock today", "time on the world clock"} {
		if got, err := clock.Answer(text, time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)); err != nil || !strings.HasPrefix(got, "UTC: ") {
			t.Errorf("Answer(%q) = %q, %v", text, got, err)
		}
	}
}
