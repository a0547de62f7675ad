package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/process"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

const (
	// endGrace is the time between closing a program's input, sending SIGTERM, and killing it.
	endGrace = 2 * time.Second

	maxLine    = 1 << 10 // bytes of a line of standard error
	errorLines = 5       // of standard error in an error message
)

// inherited lists the variables, or prefixes ending in _, that a program from a configuration file gets from this process. Other variables may hold
// keys, and have to be named in the file.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "LC_", "LOGNAME", "PATH", "SHELL", "SSL_CERT_", "TERM", "TMPDIR", "TZ", "USER", "XDG_",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NODE_EXTRA_CA_CERTS",
	"APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE",
}

// program is the process of a server.
type program struct {
	cmd    *exec.Cmd
	mark   string
	stdin  *os.File
	stdout *os.File
	stderr *stderr
	gone   chan struct{} // closed when the process has exited
	err    error         // of Wait; set before gone is closed
	once   sync.Once
}

// start starts the server's program in its own process group. each is called with the lines of its standard error.
func start(s *Server, each func(line string)) (*program, error) {
	path, err := findProgram(s.Argv[0], s.Dir)
	if err != nil {
		return nil, err
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	p := &program{
		mark: process.NewMark(), stdin: inWrite, stdout: outRead, gone: make(chan struct{}),
		stderr: &stderr{each: each, pace: rate.NewLimiter(50, 200)},
	}
	p.cmd = &exec.Cmd{
		Path: path, Args: s.Argv, Dir: s.Dir, Env: append(append(environ(s), s.Env...), process.MarkVar+"="+p.mark),
		Stdin: inRead, Stdout: outWrite, Stderr: p.stderr, WaitDelay: endGrace,
	}
	process.Isolate(p.cmd)
	started := make(chan error)
	go func() {
		// On Linux the program dies with the thread that started it, so the thread must live as long as the program.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			process.KillGroup(p.cmd.Process.Pid) // its children are of no use without it
			process.KillAll(p.cmd.Process.Pid, p.mark)
			close(p.gone)
		}
	}()
	err = <-started
	_ = errors.Join(inRead.Close(), outWrite.Close()) // the program has its own copies
	if err != nil {
		_ = errors.Join(inWrite.Close(), outRead.Close())
		return nil, fmt.Errorf("%s cannot be started: %w", filepath.Base(path), plain(err))
	}
	return p, nil
}

// environ returns the part of this process's environment that the program gets.
func environ(s *Server) []string {
	if s.Inherit {
		return os.Environ()
	}
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		for _, want := range inherited {
			if name == want || strings.HasSuffix(want, "_") && strings.HasPrefix(name, want) {
				env = append(env, v)
				break
			}
		}
	}
	return env
}

// findProgram returns the path of a program, or an error that says what to do.
func findProgram(name, dir string) (string, error) {
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return "", fmt.Errorf("%s: there is no such folder to run in", dir)
		}
	}
	look := name
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		abs, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		look = abs
	}
	path, err := exec.LookPath(look)
	if err != nil {
		return "", fmt.Errorf("%s: %w: check the name, or give the path", name, plain(err))
	}
	return filepath.Abs(path)
}

// plain removes paths and system call names from an error.
func plain(err error) error {
	var of *exec.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err
}

// transport returns a transport over the program's standard input and output.
func (p *program) transport() sdk.Transport {
	return &sdk.IOTransport{Reader: p.stdout, Writer: input{p.stdin}}
}

// input is a program's standard input; it can be closed repeatedly.
type input struct{ *os.File }

// Close implements [io.Closer].
func (i input) Close() error {
	if err := i.File.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// end ends the program and all processes that it started, and waits for it.
func (p *program) end() {
	p.once.Do(func() {
		_ = p.stdin.Close() // asks it to exit
		if !p.await(endGrace) {
			_ = process.Terminate(p.cmd.Process, p.mark)
			p.await(endGrace)
		}
		process.KillAll(p.cmd.Process.Pid, p.mark)
		process.KillGroup(p.cmd.Process.Pid)
		<-p.gone
		_ = p.stdout.Close()
	})
}

func (p *program) await(most time.Duration) bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(most):
		return false
	}
}

// stderr passes on a program's standard error line by line, limits the rate, and keeps the last lines.
type stderr struct {
	each func(line string)
	pace *rate.Limiter

	mu      sync.Mutex
	partial []byte
	last    []string
}

var _ io.Writer = (*stderr)(nil)

// Write implements [io.Writer].
func (w *stderr) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		w.partial = append(w.partial, line[:min(len(line), maxLine-len(w.partial))]...)
		if !ended {
			return n, nil
		}
		b = rest
		text := strings.TrimSpace(strings.ToValidUTF8(string(w.partial), ""))
		w.partial = w.partial[:0]
		if text == "" {
			continue
		}
		if len(w.last) == errorLines {
			w.last = append(w.last[:0], w.last[1:]...)
		}
		w.last = append(w.last, text)
		if w.pace.Allow() {
			w.each(text)
		}
	}
}

// tail returns the last lines, joined by spaces.
func (w *stderr) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return shorten.To(strings.Join(append(w.last, strings.TrimSpace(string(w.partial))), " "), maxLine)
}
