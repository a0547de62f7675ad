package clock

import (
	"strings"
	"testing"
	"time"
)

// TestPlaces checks that every line of places.txt is an existing zone, and that each name is found.
func TestPlaces(t *testing.T) {
	zones, aliases := 0, 0
	for l := range strings.Lines(placesText) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		zones++
		zone, names, _ := strings.Cut(strings.TrimPrefix(l, "-"), ":")
		if _, err := time.LoadLocation(zone); err != nil {
			t.Errorf("%s: %v", zone, err)
		}
		for name := range strings.SplitSeq(names, ",") {
			if name = strings.TrimLeft(strings.TrimSpace(name), "*="); name == "" {
				continue
			}
			aliases++
			found, unknown := places("time in " + name)
			ok := len(unknown) == 0
			for _, p := range found {
				ok = ok && fold(strings.ReplaceAll(p.name, ",", "")) == fold(name)
			}
			if !ok || len(found) == 0 {
				t.Errorf("%q is found as %v, and %q as unknown", name, found, unknown)
			}
		}
	}
	if zones < 400 || aliases < 500 {
		t.Errorf("%d zones and %d names, want more", zones, aliases)
	}
}
