package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

const (
	readyTimeout = 2 * time.Minute
	askReady     = 20 * time.Millisecond // interval of polling
	stopTimeout  = time.Minute
)

// process is a separate `cortex serve`.
type process struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc
	ended  chan error

	ready  time.Duration // from its start until it was ready
	agents int           // known at that time
	nats   string        // where agents and users connect
}

// startServe starts a server process on a data folder and returns when it is ready. It ends when ctx does; the caller ends it with stop or kill.
func startServe(ctx context.Context, binary, data string, flags ...string) (*process, error) {
	args := append([]string{"serve", "--data", data, "--http", "127.0.0.1:0", "--agents", "none", "--log-format", "json"}, flags...)
	p, ctx, cancel := newProcess(ctx, binary, args...)
	logs, err := p.cmd.StderrPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	health, last := make(chan string, 1), make(chan string, 1)
	go func() {
		last <- p.read(logs, health)
		p.ended <- p.cmd.Wait()
	}()
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	select {
	case url := <-health:
		if err = awaitReady(ctx, url); err == nil {
			p.ready = time.Since(begin)
			return p, nil
		}
	case line := <-last:
		err = fmt.Errorf("cortex serve ended: %s", line)
	case <-timeout.C:
		err = fmt.Errorf("cortex serve is not ready within %v", readyTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	<-p.ended //nolint:errcheck // why is known
	return nil, err
}

// newProcess returns a process that is not started. It is interrupted when the context ends.
func newProcess(ctx context.Context, binary string, args ...string) (*process, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{cancel: cancel, ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(ctx, binary, args...)
	p.cmd.Args[0] = "cortex"
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CORTEX_") { // settings of the user's own Cortex
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Cancel, p.cmd.WaitDelay = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }, stopTimeout
	return p, ctx, cancel
}

// read reads the process's log until it ends, and returns its last line. It sends the address of the health checks.
func (p *process) read(logs io.Reader, health chan<- string) (last string) {
	lines := bufio.NewScanner(logs)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		last = string(line[:min(len(line), 300)])
		if !bytes.Contains(line, []byte(`"cortex is ready"`)) && !bytes.Contains(line, []byte(`"health endpoint"`)) {
			continue
		}
		var l struct {
			Msg    string `json:"msg"`
			URL    string `json:"url"`
			Agents int    `json:"agents"`
		}
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		switch l.Msg {
		case "cortex is ready":
			p.agents, p.nats = l.Agents, l.URL
		case "health endpoint":
			health <- l.URL
		}
	}
	io.Copy(io.Discard, logs) //nolint:errcheck // a line that is too long ends the reading, not the process
	return last
}

// awaitReady polls url until the process is ready.
func awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var why []byte
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(req)
		if err == nil {
			why, _ = io.ReadAll(io.LimitReader(answer.Body, 300)) // optional: the status matters
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if err := rest.For(ctx, askReady); err != nil {
			return fmt.Errorf("cortex serve is not ready: %w: %s", err, bytes.TrimSpace(why))
		}
	}
}

// resident returns the resident memory of a process in bytes, or false where it is unknown.
func resident(pid int) (float64, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024, err == nil
		}
	}
	return 0, false
}

// stop interrupts the process and waits for its end.
func (p *process) stop() error {
	p.cancel()
	if err := <-p.ended; err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("cortex serve: %w", err)
	}
	return nil
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-p.ended            //nolint:errcheck // its end was intended
	p.cancel()
}
