package lines_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/internal/lines"
)

func TestFrom(t *testing.T) {
	const text = "one\ntwo\n\nfour\n"
	long := strings.Repeat("é", 1200) + "\nend"
	for _, test := range []struct {
		text             string
		from, most, room int
		part             string
		first, last      int
	}{
		{text, 1, 2, 100, "one\ntwo\n", 1, 2},
		{text, 0, 9, 100, text, 1, 4},
		{text, -1, 9, 100, "four\n", 4, 4},
		{text, -2, 9, 100, "\nfour\n", 3, 4},
		{text, -9, 1, 100, "one\n", 1, 1},
		{text, 5, 9, 100, "", 5, 4},
		{text, 1, 9, 9, "one\ntwo\n\n", 1, 3},
		{text, 2, 9, 2, "tw", 2, 2},
		{text, 2, 9, 0, "", 2, 1},
		{"", 1, 9, 100, "", 1, 0},
		{"", -1, 9, 100, "", 1, 0},
		{long, 1, 1, 5000, strings.Repeat("é", 500), 1, 1},
		{long, 3, 9, 5000, strings.Repeat("é", 200) + "\nend", 3, 4},
		{long, -1, 9, 5000, "end", 4, 4},
		{long, 1, 9, 3, "é", 1, 1},
	} {
		part, first, last := lines.From(test.text, test.from, test.most, test.room)
		if part != test.part || first != test.first || last != test.last {
			t.Errorf("From(%.20q, %d, %d, %d) = %.40q, %d, %d, want %.40q, %d, %d",
				test.text, test.from, test.most, test.room, part, first, last, test.part, test.first, test.last)
		}
	}
	if got := lines.Head(text, 2, 5); got != "one\n" {
		t.Errorf("Head() = %q", got)
	}
}

func TestWith(t *testing.T) {
	const text = "An apple\na pear\nAPPLES\n"
	over := strings.Repeat("x", lines.MaxLine-2) + "apple" + strings.Repeat("y", 900) + "apple\n"
	for _, test := range []struct {
		text, find string
		room       int
		found      string
		more       int
	}{
		{text, "apple", 100, "1: An apple\n3: APPLES\n", 0},
		{text, "Apple", 13, "1: An apple\n", 1},
		{text, "plum", 100, "", 0},
		{over, "apple", 9000, fmt.Sprintf("1: %s\n2: %s\n", over[:lines.MaxLine], over[lines.MaxLine:len(over)-1]), 0},
		{over[lines.MaxLine:], "yapple", 9000, "1: " + over[lines.MaxLine:], 0},
	} {
		if found, more := lines.With(test.text, test.find, test.room); found != test.found || more != test.more {
			t.Errorf("With(%.20q, %q, %d) = %.40q, %d, want %.40q, %d", test.text, test.find, test.room, found, more, test.found, test.more)
		}
	}
}

// FuzzLines checks that all lines together are the text, however it is read, and that no part is longer than its room.
func FuzzLines(f *testing.F) {
	f.Add("one\ntwo\n", "w", 3, 10)
	f.Add(strings.Repeat("é", 2000), "é", 1, 1500)
	f.Fuzz(func(t *testing.T, text, find string, most, room int) {
		most, room = max(most%50, 1), max(room%5000, 0)
		var b strings.Builder
		n := lines.Count(text)
		for from := 1; from <= n; {
			part, first, last := lines.From(text, from, most, lines.MaxLine+1)
			if first != from || last < first || last-first >= most {
				t.Fatalf("lines %d to %d of %d, from %d", first, last, n, from)
			}
			b.WriteString(part)
			from = last + 1
		}
		if b.String() != text {
			t.Errorf("read as %q, want %q", b.String(), text)
		}
		part, _, _ := lines.From(text, -most, most, room)
		found, _ := lines.With(text, find, room)
		if len(part) > room || len(found) > room {
			t.Errorf("%d and %d bytes, want at most %d", len(part), len(found), room)
		}
		if utf8.ValidString(text) && !(utf8.ValidString(part) && utf8.ValidString(found)) {
			t.Errorf("%q and %q are not valid", part, found)
		}
	})
}
