package logs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
)

// TestLowered checks that only records with the error are lowered.
func TestLowered(t *testing.T) {
	errAway := errors.New("away")
	for level, want := range map[slog.Level]string{
		slog.LevelWarn:  "level=WARN msg=other a=b g.err=else\nlevel=WARN msg=none a=b\n",
		slog.LevelDebug: "level=DEBUG msg=away a=b g.err=\"no server: away\"\nlevel=WARN msg=other a=b g.err=else\nlevel=WARN msg=none a=b\n",
	} {
		var out bytes.Buffer
		h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
		log := slog.New(Lowered(h, errAway)).With("a", "b").WithGroup("g")
		log.Warn("away", "err", fmt.Errorf("no server: %w", errAway))
		log.Warn("other", "err", errors.New("else"))
		log.Warn("none")
		got := out.String()
		if got != want {
			t.Errorf("at %v:\n%s\nwant\n%s", level, got, want)
		}
	}
}
