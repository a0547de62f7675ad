// Package logs has the handlers between Cortex and its log. What is logged contains texts of strangers, who also decide how much there is to log.
package logs

import "log/slog"

// New returns a logger that writes to h, and bounds the length and the rate of its lines.
func New(h slog.Handler) *slog.Logger { return slog.New(newPaced(bounded{h})) }
