package nats

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// serverLog passes the log of a NATS server on, and remembers what it calls fatal: there a server would end the process.
type serverLog struct {
	logger *slog.Logger

	broken chan error // holds why the store can no longer be written

	mu    sync.Mutex
	cause error
}

func newServerLog(l *slog.Logger) *serverLog {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &serverLog{logger: l, broken: make(chan error, 1)}
}

// Fatalf remembers the first message.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.Errorf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = fmt.Errorf(format, v...)
	}
}

func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// Errorf logs a warning. The server says only here that it has given a store up for the rest of its life.
func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.logger.Warn("nats server", "text", text)
	if strings.Contains(format, "critical write error") {
		select {
		case l.broken <- fmt.Errorf("the NATS server cannot write any more; make room on the disk and start again, what was accepted is kept: %s", oneLine(text, 400)):
		default:
		}
	}
}

// Warnf logs for information: what a server warns of after a kill is how it recovers.
func (l *serverLog) Warnf(format string, v ...any) {
	l.logger.Info("nats server", "text", fmt.Sprintf(format, v...))
}

// Noticef logs at debug level.
func (l *serverLog) Noticef(format string, v ...any) { l.Debugf(format, v...) }

// Debugf logs at debug level.
func (l *serverLog) Debugf(format string, v ...any) {
	l.logger.Debug("nats server", "text", fmt.Sprintf(format, v...))
}

// Tracef logs nothing: a server's trace has the users' words.
func (l *serverLog) Tracef(string, ...any) {}
