package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// serverLog passes the log of a NATS server on, and remembers what it calls fatal: there a server would end the process.
type serverLog struct {
	logger *slog.Logger

	broken chan error // holds why the store can no longer be written

	mu    sync.Mutex
	cause error
	since time.Time // when the lines about connections were counted anew
	lines int
}

const (
	maxServerLine = 1 << 10 // bytes of a line; a client has a part in many

	connLines  = 20 // about connections
	connWindow = 10 * time.Second
)

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
	text := oneLine(fmt.Sprintf(format, v...), maxServerLine)
	if !l.tooOften(text) {
		l.logger.Warn("nats server", "text", text)
	}
	l.giveUp(format, text)
}

// giveUp takes note of a line by which the server says that it has given a store up: a stream's, or all of them.
// Only the server's own words count: a stranger's may be in the values.
func (l *serverLog) giveUp(format, text string) {
	for _, said := range []string{"critical write error", "Critical write error", "disabling JetStream"} {
		if strings.Contains(format, said) {
			select {
			case l.broken <- brokenStore(text):
			default:
			}
			return
		}
	}
}

// brokenStore says why a store was given up, and what to do.
func brokenStore(text string) error {
	text = oneLine(text, 400)
	switch err := errors.New(text); {
	case openfiles.None(err):
		return fmt.Errorf("the NATS server cannot write any more, since no file can be opened; %s, what was accepted is kept: %w", openfiles.Advice(), err)
	case strings.Contains(text, syscall.ENOSPC.Error()), strings.Contains(text, syscall.EDQUOT.Error()):
		return fmt.Errorf("the NATS server cannot write any more; make room on the disk and start again, what was accepted is kept: %w", err)
	case strings.Contains(text, syscall.EACCES.Error()), strings.Contains(text, syscall.EPERM.Error()), strings.Contains(text, "permission denied"):
		return fmt.Errorf("the NATS server may not write any more; let this user write all files of the store (`chown -R`) and start again, what was accepted is kept: %w", err)
	default:
		return fmt.Errorf("the NATS server cannot write any more; see what is wrong with its disk and start again, what was accepted is kept: %w", err)
	}
}

// Warnf logs for information: what a server warns of after a kill is how it recovers. That it makes the list of timers is so at each start.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.Contains(format, "Message scheduling state is outdated") {
		l.Debugf(format, v...)
		return
	}
	if text := oneLine(fmt.Sprintf(format, v...), maxServerLine); !l.tooOften(text) {
		l.logger.Info("nats server", "text", text)
		l.giveUp(format, text)
	}
}

// tooOften reports whether a line is about a connection, of which strangers make as many as they like, and there were many of late. It
// logs how many such lines were left out.
func (l *serverLog) tooOften(text string) bool {
	if !strings.Contains(text, " - cid:") && !strings.Contains(text, "Accept Error(") {
		return false
	}
	now := time.Now()
	l.mu.Lock()
	left := 0
	if now.Sub(l.since) > connWindow {
		left, l.since, l.lines = max(0, l.lines-connLines), now, 0
	}
	l.lines++
	over := l.lines > connLines
	l.mu.Unlock()
	if left > 0 {
		l.logger.Warn("nats server said more about connections than is shown", "lines", left)
	}
	return over
}

// Noticef logs at debug level.
func (l *serverLog) Noticef(format string, v ...any) { l.Debugf(format, v...) }

// Debugf logs at debug level.
func (l *serverLog) Debugf(format string, v ...any) {
	l.logger.Debug("nats server", "text", oneLine(fmt.Sprintf(format, v...), maxServerLine))
}

// Tracef logs nothing: a server's trace has the users' words.
func (l *serverLog) Tracef(string, ...any) {}
