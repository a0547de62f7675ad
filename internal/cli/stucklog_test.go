package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/cli"
)

// TestServeWhoseLogIsNotRead stops reading the log of a service, as a terminal does after Ctrl-S: it answers, says what is wrong, and ends.
func TestServeWhoseLogIsNotRead(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	log, lines := io.Pipe()
	defer log.Close()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, []string{"serve", "--data", data, "--llm", "fake", "--http", "127.0.0.1:0", "--log-level", "debug"}, strings.NewReader(""), io.Discard, lines)
	}()
	ready := ""
	for in := bufio.NewScanner(log); ready == "" && in.Scan(); {
		ready = readyURL.FindString(in.Text())
	}
	for range 3 {
		asked, end := context.WithTimeout(ctx, patience)
		var answer, errs bytes.Buffer
		code := cli.Run(asked, []string{"ask", "--data", data, "what time is it"}, strings.NewReader(""), &answer, &errs)
		end()
		if code != 0 || !strings.Contains(answer.String(), "UTC") {
			t.Fatalf("ask exits with %d: %s%s", code, &answer, &errs)
		}
	}
	eventually(t, "it is told", func() bool {
		_, body := status(t, ready)
		return strings.Contains(body, "the log takes nothing since")
	})
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("the service exits with %d", code)
	}
}
