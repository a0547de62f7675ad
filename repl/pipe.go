package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// Pipe reads all of Stdin as one message, at most [transport.MaxText] bytes, and does what Ask does.
func Pipe(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	b, err := readAll(ctx, cfg.Stdin, transport.MaxText+1)
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	text := strings.TrimRight(string(b), "\r\n")
	if len(b) > transport.MaxText {
		text = string(b) // refused for its size
	}
	if cfg.To == nil {
		cfg.To = addressee(ctx, cfg.Backend.Agents, text)
	}
	return Ask(ctx, cfg, text)
}

// Ask sends text and writes only the answer to Stdout: laid out on a terminal, unchanged elsewhere. Progress goes to Stderr when that is a terminal,
// or Verbose is set. It returns ErrFailed when the answer, which was written, reports a failure; ctx's error, with nothing written, when ctx ended
// first; and otherwise the errors of [Config.Say].
func Ask(ctx context.Context, cfg Config, text string) error {
	cfg = cfg.withDefaults()
	if cfg.Client == nil {
		return errors.New("repl: Config.Client is missing")
	}
	contextID := cfg.ContextID
	if contextID == "" {
		contextID = cfg.Client.NextID()
	}
	log := progressLog{screen: cfg.screen(cfg.Stderr, isTerminal(cfg.Stderr)), board: board{now: cfg.Client.Clock}}
	if !cfg.Verbose && !isTerminal(cfg.Stderr) {
		log.w = io.Discard
	}
	for e, err := range cfg.Say(ctx, contextID, text) {
		if err != nil {
			return err
		}
		m, ok := e.Payload.(*a2a.Message)
		if !ok {
			log.show(e)
			continue
		}
		if ctx.Err() != nil {
			continue // it only says that the turn was cancelled
		}
		answer := Sanitize(transport.Text(m.Parts))
		if !strings.HasSuffix(answer, "\n") {
			answer += "\n"
		}
		if out := cfg.screen(cfg.Stdout, isTerminal(cfg.Stdout)); out.repaint || out.style != "" {
			width, _ := out.size()
			answer = render(answer, width, out.style, "")
		}
		if _, err := io.WriteString(cfg.Stdout, answer); err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		if _, err := cfg.Keep(ctx, m); err != nil {
			return err
		}
		if failed, _ := m.Meta()[transport.MetaFailed].(bool); failed {
			return ErrFailed
		}
	}
	return nil
}

// progressLog writes the events of a turn as plain lines.
type progressLog struct {
	screen
	board board
}

func (l *progressLog) show(e *transport.Event) {
	width, _ := l.size()
	line := ""
	switch p := e.Payload.(type) {
	case *a2a.Task:
		if d := l.board.started(p); d != nil {
			line = d.line(l.board.now(), width, l.style)
		}
	case *a2a.TaskStatusUpdateEvent:
		if e.From == transport.Cortex {
			line = l.board.settled(p, width, l.style)
			break
		}
		line = l.progress(e, width)
	case *a2a.TaskArtifactUpdateEvent:
		line = l.progress(e, width)
	}
	if line != "" {
		_, _ = fmt.Fprintln(l.w, line)
	}
}

// progress returns an agent's progress, at most once a second for each task.
func (l *progressLog) progress(e *transport.Event, width int) string {
	d := l.board.progressed(e)
	if d == nil || l.board.now().Sub(d.shown) < time.Second {
		return ""
	}
	d.shown = l.board.now()
	return d.line(d.shown, width, l.style)
}

// readAll reads r to its end or to limit bytes, until ctx ends. A Read that does not return is abandoned.
func readAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, limit))
		done <- result{b, err}
	}()
	select {
	case got := <-done:
		return got.b, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
