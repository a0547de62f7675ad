package llms

import "testing"

// A prompt takes no more than a minute may have, where that is bounded.
func TestWindow(t *testing.T) {
	for _, tt := range []struct{ window, minute, want int }{
		{0, 0, 0}, {128_000, 0, 128_000}, {128_000, 30_000, 30_000}, {0, 30_000, 30_000}, {16_000, 30_000, 16_000}, {128_000, 100, leastWindow},
	} {
		ep := &Endpoint{ContextWindow: tt.window, TokensPerMinute: tt.minute}
		if got := ep.window(); got != tt.want {
			t.Errorf("window %d with %d tokens a minute: %d, want %d", tt.window, tt.minute, got, tt.want)
		}
	}
}
