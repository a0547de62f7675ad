package size_test

import (
	"math"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/size"
)

func TestText(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 14_022: "14 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		64 << 20: "67 MB", math.MaxInt64: "9.2 EB",
	} {
		if got := size.Text(n); got != want {
			t.Errorf("Text(%d) = %q, want %q", n, got, want)
		}
	}
}
