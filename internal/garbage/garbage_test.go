package garbage

import "testing"

// TestPercent wants the garbage bounded, and never less of it than Go allows by itself.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{{0, 400}, {10 << 20, 400}, {64 << 20, 400}, {128 << 20, 200}, {256 << 20, 100}, {8 << 30, 100}} {
		got := percent(c.inUse)
		if got != c.want {
			t.Errorf("percent(%d) = %d, want %d", c.inUse, got, c.want)
		}
		if room := uint64(got) * c.inUse / 100; room > max(room, c.inUse) {
			t.Errorf("with %d bytes in use, %d bytes of garbage gather", c.inUse, room)
		}
	}
}
