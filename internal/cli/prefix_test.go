package cli

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/usage"
)

// listedIDs yields ids, and then err unless it is nil.
func listedIDs(err error, ids ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// TestWhole checks which id a beginning stands for.
func TestWhole(t *testing.T) {
	for name, test := range map[string]struct {
		given, want, err string
		ids              []string
	}{
		"whole":           {given: "ab", ids: []string{"abc", "ab"}, want: "ab"},
		"the only one":    {given: "ab", ids: []string{"abc", "b"}, want: "abc"},
		"the same, twice": {given: "ab", ids: []string{"abc", "abc"}, want: "abc"},
		"none":            {given: "x", ids: []string{"abc"}, want: "x"},
		"nothing":         {given: "", ids: []string{"abc"}, want: ""},
		"two":             {given: "a", ids: []string{"ab", "ac"}, err: "a is the beginning of 2 tasks, write more of it: ab, ac"},
		"many": {
			given: "a", ids: strings.Fields("a1 a2 a3 a4 a5 a6 a7 a8 a9 a10"),
			err: "a is the beginning of 10 tasks, write more of it: a1, a2, a3, a4, a5, a6, a7, a8, and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := whole("task", test.given, listedIDs(nil, test.ids...))
			if test.err != "" {
				var wrong usage.Error
				if !errors.As(err, &wrong) || err.Error() != test.err {
					t.Fatalf("error %v, want that of a user: %s", err, test.err)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("whole = %q, %v, want %q", got, err, test.want)
			}
		})
	}
	failed := errors.New("away")
	if _, err := whole("task", "ab", listedIDs(failed, "abc")); !errors.Is(err, failed) {
		t.Errorf("error %v, want that of the list", err)
	}
}

// TestIsGenerated checks which texts may be the beginning of an id that Cortex made, rather than a name.
func TestIsGenerated(t *testing.T) {
	for id, want := range map[string]bool{
		"01a2": true, "01a20711-ecf9": true, "01a20711-ecf9-75c2-ac15-ad9ec5bee3e0": true,
		"": false, "01a": false, "demo": false, "cafe": false, "trip-2": false, "decade": false,
	} {
		if got := isGenerated(id); got != want {
			t.Errorf("isGenerated(%q) = %v, want %v", id, got, want)
		}
	}
}

// TestPartial checks that a text that ends within a character is still recognised as text.
func TestPartial(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 0, "ü": 0, "\xc3": 1, "a\xe2\x82": 2, "a\xf0\x9f\x98": 3, "\xff": 0} {
		if got := partial([]byte(text)); got != want {
			t.Errorf("partial(%q) = %d, want %d", text, got, want)
		}
	}
}
