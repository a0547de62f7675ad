package logs

import (
	"context"
	"errors"
	"log/slog"
)

// Lowered returns a handler that lowers records with an error that is target to debug: it is told in another way.
func Lowered(h slog.Handler, target error) slog.Handler { return lowered{h, target} }

type lowered struct {
	slog.Handler
	target error
}

// Handle implements [slog.Handler].
func (l lowered) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && errors.Is(err, l.target) {
			r.Level = slog.LevelDebug
		}
		return true
	})
	if !l.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (l lowered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lowered{l.Handler.WithAttrs(attrs), l.target}
}

// WithGroup implements [slog.Handler].
func (l lowered) WithGroup(name string) slog.Handler {
	return lowered{l.Handler.WithGroup(name), l.target}
}
