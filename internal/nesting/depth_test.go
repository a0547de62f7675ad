package nesting

import "testing"

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "1": 0, `"[["`: 0, "[]": 1, `{"a":[1]}`: 2, `[[],[[]]]`: 3, `["\\",[]]`: 2, `["\"[[["]`: 1, "[[[": 3, "]]]": 0,
	} {
		if got := Depth([]byte(text)); got != want {
			t.Errorf("Depth(%s) = %d, want %d", text, got, want)
		}
	}
}
