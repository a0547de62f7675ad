package mcp

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/internal/process"
)

// inherited lists the variables, or prefixes ending in _, that a program from a configuration file gets from this process. Other variables may hold
// keys, and have to be named in the file.
var inherited = []string{
	"HOME", "LANG", "LANGUAGE", "LC_", "LOGNAME", "PATH", "SHELL", "SSL_CERT_", "TERM", "TMPDIR", "TZ", "USER", "XDG_",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NODE_EXTRA_CA_CERTS",
	"APPDATA", "COMSPEC", "LOCALAPPDATA", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE",
}

// program is the process of a server.
type program struct{ *process.Program }

// start starts the server's program. each is called with the lines of its standard error.
func start(s *Server, each func(line string)) (*program, error) {
	path, err := process.Find(s.Argv[0], s.Dir)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(&exec.Cmd{Path: path, Args: s.Argv, Dir: s.Dir, Env: append(environ(s), s.Env...)}, each)
	if err != nil {
		return nil, err
	}
	return &program{p}, nil
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

// transport returns a transport over the program's standard input and output. skipped is told of lines that are skipped.
func (p *program) transport(skipped func(why string, length int)) sdk.Transport {
	return &sdk.IOTransport{Reader: newFrames(p.Out, inLines, skipped), Writer: input{p.In}, MaxLineLength: maxFrame + 1}
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
	p.End(false)
	_ = p.Out.Close()
}
