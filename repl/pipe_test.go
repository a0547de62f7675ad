package repl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/client/clienttest"
	"github.com/cortex-orchestrator/cortex/transport"
)

func TestPipe(t *testing.T) {
	play := func(s *clienttest.Script, e *transport.Event) {
		s.Delta(e, "a", "provisional")
		s.Task(e, "t1", "clock", "time?")
		s.Progress(e, "t1", "clock", "winding \x1b[31mup")
		s.Settle(e, "t1", a2a.TaskStateCompleted, "")
		m := clienttest.AnswerTo(e, "got "+clienttest.Text(e)+"\x1b[2J")
		if strings.Contains(clienttest.Text(e), "fail") {
			m.Metadata[transport.MetaFailed] = true
		}
		s.Live(e, transport.Cortex, m)
	}
	for _, tc := range []struct {
		name, stdin    string
		verbose        bool
		stdout, stderr string
		err            error
	}{
		{name: "one message", stdin: "a\nb\n", stdout: "got a\nb\n"},
		{name: "not a command", stdin: "/quit", stdout: "got /quit\n"},
		{name: "verbose", stdin: "a", verbose: true, stdout: "got a\n", stderr: "· clock  time?  0.0 s\n· clock  winding up  0.0 s\n✓ clock  time?  0.0 s\n"},
		{name: "failed", stdin: "fail", stdout: "got fail\n", err: ErrFailed},
		{name: "empty", stdin: "\n", err: transport.ErrInvalid},
		{name: "too large", stdin: strings.Repeat("x", transport.MaxText+1), err: transport.ErrInvalid},
		{name: "too large by its newlines", stdin: "x" + strings.Repeat("\n", transport.MaxText), err: transport.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := clienttest.New(t, play)
			var stdout, stderr bytes.Buffer
			cfg := Config{Client: c, Stdin: strings.NewReader(tc.stdin), Stdout: &stdout, Stderr: &stderr, Verbose: tc.verbose}
			if err := Run(t.Context(), cfg); !errors.Is(err, tc.err) || (err != nil) != (tc.err != nil) {
				t.Errorf("Run = %v, want %v", err, tc.err)
			}
			if stdout.String() != tc.stdout || stderr.String() != tc.stderr {
				t.Errorf("stdout %q, stderr %q, want %q and %q", stdout.String(), stderr.String(), tc.stdout, tc.stderr)
			}
		})
	}
}

func TestPipeConversation(t *testing.T) {
	contexts := make(chan string, 2)
	_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) {
		contexts <- e.ContextID
		s.Answer(e, "ok")
	})
	for _, id := range []string{"ctx-7", ""} {
		if err := Ask(t.Context(), Config{Client: c, ContextID: id, Stdout: io.Discard}, "hi"); err != nil {
			t.Fatal(err)
		}
		if got := <-contexts; got == "" || (id != "" && got != id) {
			t.Errorf("message went to %q, want %q", got, id)
		}
	}
}

// TestPipeCanceled checks that a pipe without a writer does not prevent the end of the program.
func TestPipeCanceled(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, c := clienttest.New(t, func(*clienttest.Script, *transport.Event) {})
	if err := Pipe(ctx, Config{Client: c, Stdin: r, Stdout: io.Discard}); !errors.Is(err, context.Canceled) {
		t.Errorf("Pipe = %v, want context.Canceled", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPipeBrokenOutput(t *testing.T) {
	_, c := clienttest.New(t, func(s *clienttest.Script, e *transport.Event) { s.Answer(e, "ok") })
	if err := Ask(t.Context(), Config{Client: c, Stdout: brokenWriter{}}, "hi"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Ask = %v, want the writer's error", err)
	}
}
