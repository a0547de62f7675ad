package cli_test

import (
	"strings"
	"testing"
)

// TestContinueIsOnesOwn checks that --continue selects a person's own latest conversation, even if another person spoke last.
func TestContinueIsOnesOwn(t *testing.T) {
	k := newKeyed(t)
	ada, bob := k.person("ada"), k.person("bob")
	for _, said := range [][]string{
		{ada, "ask", "--conversation", "of-ada", "hello"},
		{bob, "ask", "--conversation", "of-bob", "hello"},
		{ada, "ask", "--continue", "good evening"},
	} {
		if code, _, errs := k.run(said[0], said[1:]...); code != 0 {
			t.Fatalf("%q = %d, %q", said[1:], code, errs)
		}
	}
	if _, out, errs := k.run(bob, "history", "of-ada"); !strings.Contains(out, "good evening") {
		t.Errorf("ada's conversation is\n%s%s\nwant what she said", out, errs)
	}
	if code, _, errs := k.run(k.person("eve"), "ask", "-c", "hello"); code != 1 || !strings.Contains(errs, "no conversation of yours") {
		t.Errorf("ask -c = %d, %q, want that there is none of eve's", code, errs)
	}
}
