package nats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/openfiles"
)

// serverLog passes the log of a NATS server on. It remembers the first fatal error, at which a stand-alone server would exit.
type serverLog struct {
	logger *slog.Logger

	broken chan error  // holds the reason why the store can no longer be written
	gaveUp atomic.Bool // broken had one

	mu    sync.Mutex
	cause error
	since time.Time // start of the window in which lines about connections are counted
	lines int
	cut   []cutFile // since takeCut
}

// cutFile is a file of which the server has said that it is damaged, so that it cuts it off.
type cutFile struct {
	path string
	size int // bytes that it keeps
}

const (
	maxServerLine = 1 << 10 // bytes of a line; clients determine parts of many lines

	maxCut = 100 // files that are damaged, between two looks

	connLines  = 20 // lines about connections per connWindow
	connWindow = 10 * time.Second
)

func newServerLog(l *slog.Logger) *serverLog {
	l = cmp.Or(l, slog.New(slog.DiscardHandler))
	return &serverLog{logger: l, broken: make(chan error, 1)}
}

// Fatalf keeps the first fatal error.
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

// Errorf logs a warning. The server reports only here that it has given up a store for the rest of its life.
func (l *serverLog) Errorf(format string, v ...any) {
	text := oneLine(fmt.Sprintf(format, v...), maxServerLine)
	if !l.tooOften(text) {
		l.logger.Warn("nats server", "text", text)
	}
	l.giveUp(format, text)
}

// giveUp recognises a line that says that the server has given up a store, a stream's or all of them. It looks only at the format, which is the
// server's own text: values may contain a stranger's.
func (l *serverLog) giveUp(format, text string) {
	for _, said := range []string{"critical write error", "Critical write error", "disabling JetStream"} {
		if strings.Contains(format, said) {
			l.giveUpFor(brokenStore(text))
			return
		}
	}
}

// giveUpFor says why the store can no longer be used.
func (l *serverLog) giveUpFor(err error) {
	l.gaveUp.Store(true)
	select {
	case l.broken <- err:
	default:
	}
}

// brokenStore returns an error with the reason why a store was given up, and what to do.
func brokenStore(text string) error {
	text = oneLine(text, 400)
	switch err := errors.New(text); {
	case openfiles.None(err):
		return fmt.Errorf("the NATS server cannot write any more, since no file can be opened; %s, what was accepted is kept: %w", openfiles.Advice(), err)
	case strings.Contains(text, syscall.ENOSPC.Error()), strings.Contains(text, syscall.EDQUOT.Error()):
		return fmt.Errorf("the NATS server cannot write any more; make room on the disk (also `df -i`: it may have no inodes left) and start again, what was accepted is kept: %w", err)
	case strings.Contains(text, syscall.EACCES.Error()), strings.Contains(text, syscall.EPERM.Error()), strings.Contains(text, "permission denied"):
		return fmt.Errorf("the NATS server may not write any more; let this user write all files of the store (`chown -R`) and start again, what was accepted is kept: %w", err)
	default:
		return fmt.Errorf("the NATS server cannot write any more; see what is wrong with its disk and start again, what was accepted is kept: %w", err)
	}
}

// Warnf logs at info level: a server's warnings after a kill are about its recovery. The rebuilt list of timers is logged at debug level, since
// every start reports it.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.Contains(format, "Message scheduling state is outdated") {
		l.Debugf(format, v...)
		return
	}
	if text := oneLine(fmt.Sprintf(format, v...), maxServerLine); !l.tooOften(text) {
		l.logger.Info("nats server", "text", text)
		l.giveUp(format, text)
	}
	if strings.Contains(format, "corrupt record state") && len(v) > 3 { // it has locks of the store: whoever asks it tells later
		path, ok := v[0].(string)
		at, is := v[3].(uint32)
		if ok && is {
			l.mu.Lock()
			if c := (cutFile{path, int(at)}); len(l.cut) < maxCut && !slices.Contains(l.cut, c) {
				l.cut = append(l.cut, c)
			}
			l.mu.Unlock()
		}
	}
}

// takeCut returns the files of which the server has said since the last call that it cannot read them to their ends, so that it cuts them off.
func (l *serverLog) takeCut() []cutFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.cut
	l.cut = nil
	return cut
}

// tooOften reports whether a line is about a connection and exceeds connLines in connWindow; strangers can cause any number of such lines. It logs
// how many were left out.
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

// Tracef logs nothing: a server's trace contains users' messages.
func (l *serverLog) Tracef(string, ...any) {}
