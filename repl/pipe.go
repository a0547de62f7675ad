package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("%w: nothing came on standard input, and that would be the message", transport.ErrInvalid)
	}
	if cfg.To == nil {
		cfg.To = addressee(ctx, cfg.Backend.Agents, text)
	}
	return Ask(ctx, cfg, text)
}

// Ask sends text and writes only the answer to Stdout: laid out on a terminal, unchanged elsewhere. Progress goes to Stderr when that is a terminal,
// or Verbose is set, and Notices go there, too. It returns what [Outcome] returns for the answer, which was written; ctx's error, with nothing
// written, when ctx ended first; and otherwise the errors of [Config.Say].
func Ask(ctx context.Context, cfg Config, text string) error {
	cfg = cfg.withDefaults()
	if cfg.Client == nil {
		return errors.New("repl: Config.Client is missing")
	}
	contextID := cmp.Or(cfg.ContextID, cfg.Client.NextID())
	track, end := cfg.progress()
	defer end("")
	for e, err := range cfg.Say(ctx, contextID, text) {
		if err != nil {
			return err
		}
		m, ok := e.Payload.(*a2a.Message)
		if !ok {
			track(e)
			continue
		}
		if ctx.Err() != nil {
			continue // it only says that the turn was cancelled
		}
		answer := Sanitize(transport.Text(m.Parts))
		if isTerminal(cfg.Stdout) {
			end(answer)
		} else {
			end("")
		}
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
		if err := Outcome(m); err != nil {
			return err
		}
	}
	return nil
}

// Outcome returns ErrFailed for an answer that reports a failure, ErrRefused for one that says why nothing was done, ErrAsks for one that is a question
// to the user, and nil for any other.
func Outcome(answer *a2a.Message) error {
	if failed, _ := answer.Meta()[transport.MetaFailed].(bool); failed {
		return ErrFailed
	}
	switch transport.MetaString(answer, transport.MetaDecision) {
	case transport.DecisionRefuse:
		return ErrRefused
	case transport.DecisionClarify:
		return ErrAsks
	default:
		return nil
	}
}

// progress returns a function that shows the events of a turn on Stderr, and one that ends that. On a terminal the open delegations are repainted,
// and each leaves one line, as in a chat; elsewhere each event is a line. Notices are shown meanwhile. What follows on the terminal is answer.
func (c *Config) progress() (track func(*transport.Event), end func(answer string)) {
	out := c.screen(c.Stderr, isTerminal(c.Stderr))
	u := &ui{screen: out}
	stopClock := func(string) {}
	if out.repaint {
		v := newTurnView(u, c.Client.Clock)
		stop := v.clock()
		track, stopClock = v.track, func(answer string) {
			stop()
			v.followed(answer)
			v.end()
		}
	} else {
		log := progressLog{screen: out, board: board{now: c.Client.Clock}}
		if !c.Verbose && !isTerminal(c.Stderr) {
			log.w = io.Discard
		}
		track = log.show
	}
	ended := make(chan struct{})
	var noticing sync.WaitGroup
	noticing.Go(func() {
		for {
			select {
			case line := <-c.Notices:
				u.Notice(c.Name+": "+line, "")
			case <-ended:
				return
			}
		}
	})
	var once sync.Once
	return track, func(answer string) {
		once.Do(func() {
			close(ended)
			noticing.Wait()
			for len(c.Notices) > 0 {
				u.Notice(c.Name+": "+<-c.Notices, "")
			}
			stopClock(answer)
		})
	}
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
			line = l.board.settled(p, width, l.style).line
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
