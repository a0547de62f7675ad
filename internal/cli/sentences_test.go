package cli

import (
	"strings"
	"testing"
)

// TestNoticesAreSaid checks that all notices during a question are printed, to the last one.
func TestNoticesAreSaid(t *testing.T) {
	var errs strings.Builder
	notices := make(chan string, 8)
	end := (&env{stderr: &errs}).sayNotices(notices)
	for _, line := range []string{"one", "two", "three"} {
		notices <- line
	}
	end()
	if want := "cortex: one\ncortex: two\ncortex: three\n"; errs.String() != want {
		t.Errorf("it says %q, want %q", &errs, want)
	}
}
