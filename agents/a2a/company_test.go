package a2a

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCompanyTroubles checks that a peer that fails is tried again, is told of once for each reason, and is listed while it fails, without its secrets.
func TestCompanyTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c := &Company{Tell: func(at string, err error) { told = append(told, at+": "+err.Error()) }}
		tries := 0
		answers := make(chan []string, 8)
		c.Persist(t.Context(), "https://ada:s3cret@example.com/a?key=s3cret", func() error {
			answers <- c.Trouble()
			switch tries++; tries {
			case 1, 2:
				return errors.New("it is away")
			case 3:
				return errors.New("it is odd")
			}
			return nil
		})
		close(answers)
		var seen []string
		for lines := range answers {
			seen = append(seen, strings.Join(lines, "; "))
		}
		const at = "A2A agent https://example.com/a is tried again: "
		if want := []string{"", at + "it is away", at + "it is away", at + "it is odd"}; !slices.Equal(seen, want) {
			t.Errorf("listed: %q, want %q", seen, want)
		}
		if len(told) != 2 || len(c.Trouble()) != 0 {
			t.Errorf("told %q, and in the end %q", told, c.Trouble())
		}
	})
}

// TestCompanyEnds checks that nothing is tried any more when the service ends, and that the list is bounded.
func TestCompanyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &Company{Tell: func(string, error) {}}
		tries := 0
		c.Persist(ctx, "https://example.com", func() error {
			if tries++; tries == 3 {
				cancel()
			}
			return errors.New("it is away")
		})
		if tries != 3 {
			t.Errorf("%d tries", tries)
		}
		for i := range maxTrouble + 5 {
			c.wait(fmt.Sprint("https://example.com/", i), "it is away")
		}
		lines := c.Trouble()
		if len(lines) != maxTrouble+1 || lines[maxTrouble] != "A2A agents that are tried again: 5 more" {
			t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
		}
	})
}

// TestCompanyFailsAnew has a peer fail, work for long, and fail for the same reason: that is told again, and it is tried at once again.
func TestCompanyFailsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told, tries := 0, 0
		c := &Company{Tell: func(string, error) { told++ }}
		var last time.Time
		c.Persist(t.Context(), "https://example.com", func() error {
			switch tries++; {
			case tries == 10:
				time.Sleep(time.Hour) // it works
				last = time.Now()
			case tries == 11:
				if pause := time.Since(last); pause > 2*time.Second {
					t.Errorf("it is tried again after %v", pause)
				}
				return nil
			}
			return errors.New("it is away")
		})
		if told != 2 {
			t.Errorf("told %d times, want 2", told)
		}
	})
}
