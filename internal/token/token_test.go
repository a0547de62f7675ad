package token

import "testing"

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(string) int
		text string
		want int
	}{
		{"Suffix", Suffix, "'s up", 2},
		{"Suffix", Suffix, "\u2019ll go", 5},
		{"Suffix", Suffix, "'clock", 0},
		{"Suffix", Suffix, "s", 0},
		{"Number", Number, "17*23", 2},
		{"Number", Number, "1,234.5.", 7},
		{"Number", Number, "x", 0},
		{"Date", Date, "2026-11-20 or later", 10},
		{"Date", Date, "20/11/2026", 10},
		{"Date", Date, "20/11-2026", 0},
		{"Date", Date, "12345-1-1", 0},
		{"Date", Date, "1.2", 0},
	} {
		if got := c.of(c.text); got != c.want {
			t.Errorf("%s(%q) = %d, want %d", c.name, c.text, got, c.want)
		}
	}
}
