package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/cortex-orchestrator/cortex/internal/logs"
	"github.com/cortex-orchestrator/cortex/internal/screen"
)

// wantsLogs reports whether the user has configured logging. Otherwise commands for people print sentences instead of log lines.
func (s *settings) wantsLogs() bool { return s.given["log-format"] != 0 || s.given["log-level"] != 0 }

// sentencesOr returns a logger that passes sentences to say, or an ordinary logger when the user has configured logging.
func (e *env) sentencesOr(level slog.Level, say func(line string)) *slog.Logger {
	if e.settings.wantsLogs() {
		return e.settings.logger(e.logTo(), level)
	}
	return logs.New(logs.Sentences{Level: level, Say: say})
}

// commandLog returns a logger for a command that a person may be looking at: at a terminal it prints sentences, unless the user has configured logging,
// and elsewhere log lines.
func (e *env) commandLog(level slog.Level) *slog.Logger {
	if !screen.IsTerminal(e.stderr) {
		return e.settings.logger(e.logTo(), level)
	}
	return e.sentencesOr(level, func(line string) { e.sayOn("%s", line) })
}

// speaker returns a function that prints sentences on standard error, or log lines when the user has configured logging.
func (e *env) speaker() func(format string, args ...any) {
	if e.settings.wantsLogs() {
		log := e.settings.logger(e.logTo(), slog.LevelInfo)
		return func(format string, args ...any) { log.Info(fmt.Sprintf(format, args...)) }
	}
	return e.sayOn
}

// sayOn is say for what a command says while it works, which nobody may read: see [logs.Patient].
func (e *env) sayOn(format string, args ...any) {
	_, _ = io.WriteString(e.logTo(), screen.Fit(e.stderr, fmt.Sprintf(format, args...)+"\n")) // nobody is left to tell
}
