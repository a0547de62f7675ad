package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/process"
)

// The kinds of process that are killed.
const (
	kindServer  = "server"
	kindReplica = "replica"
	kindAgent   = "agent"
	kindClient  = "client"
)

// member is a program that is kept running: when it ends it is restarted, as by a supervisor, until the troupe is stopped.
type member struct {
	troupe *troupe
	kind   string
	name   string
	args   []string

	mu      sync.Mutex
	cmd     *exec.Cmd // nil while it does not run
	frozen  bool
	pause   time.Duration // before it is restarted
	killed  bool          // by this run
	done    bool          // it ended properly, and is not needed any more
	ended   []string      // how it ended by itself, with its last line of output
	stopped chan struct{} // closed when it is not restarted any more
}

// troupe has all processes of a run.
type troupe struct {
	program string
	folder  string
	env     []string
	spawn   chan func()

	mu      sync.Mutex
	members []*member
	ending  chan struct{}
}

func newTroupe(program, folder string) *troupe {
	t := &troupe{program: program, folder: folder, spawn: make(chan func()), ending: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CORTEX_") { // settings are for the user's own Cortex
			t.env = append(t.env, v)
		}
	}
	go func() {
		// A child is notified of its parent's death when the thread that started it ends: this thread lives as long as the troupe.
		runtime.LockOSThread()
		for f := range t.spawn {
			f()
		}
	}()
	return t
}

// start starts a process and keeps it running. Its output goes to a file with its name.
func (t *troupe) start(kind, name string, args ...string) *member {
	p := &member{troupe: t, kind: kind, name: name, args: args, stopped: make(chan struct{})}
	t.mu.Lock()
	t.members = append(t.members, p)
	t.mu.Unlock()
	go p.keep()
	return p
}

// all returns the processes of a kind, or of every kind.
func (t *troupe) all(kind string) []*member {
	t.mu.Lock()
	defer t.mu.Unlock()
	var some []*member
	for _, p := range t.members {
		if kind == "" || p.kind == kind {
			some = append(some, p)
		}
	}
	return some
}

// keep runs the process repeatedly.
func (p *member) keep() {
	defer close(p.stopped)
	for {
		cmd, err := p.launch()
		if err == nil {
			err = cmd.Wait()
		}
		p.mu.Lock()
		p.cmd, p.frozen = nil, false
		pause := p.pause
		switch {
		case p.killed:
			p.killed = false
		case err == nil:
			p.done = true
		case p.troupe.isEnding():
		default:
			p.ended = append(p.ended, fmt.Sprintf("%v: %s", err, lastLine(p.logFile())))
			pause = 200 * time.Millisecond
		}
		done := p.done
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-p.troupe.ending:
			return
		case <-time.After(pause):
		}
	}
}

func (t *troupe) isEnding() bool {
	select {
	case <-t.ending:
		return true
	default:
		return false
	}
}

// launch starts the program once.
func (p *member) launch() (*exec.Cmd, error) {
	log, err := os.OpenFile(p.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.troupe.program, p.args...)
	cmd.Args[0] = filepath.Base(os.Args[0])
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.troupe.env, p.troupe.folder, log, log
	process.Isolate(cmd)
	started := make(chan error)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.troupe.isEnding() {
		return nil, fmt.Errorf("%s is not needed any more", p.name)
	}
	p.troupe.spawn <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, err
	}
	p.cmd = cmd
	fmt.Fprintf(log, "{\"time\":%q,\"msg\":\"process started\",\"pid\":%d}\n", time.Now().Format(time.RFC3339Nano), cmd.Process.Pid)
	return cmd, nil
}

func (p *member) logFile() string { return filepath.Join(p.troupe.folder, p.name+".log") }

// lastLine returns the last line of a file.
func lastLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}

// kill kills the process with SIGKILL, to be restarted after a pause. It returns false when it is not running.
func (p *member) kill(pause time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.killed || p.cmd.Process.Kill() != nil {
		return false
	}
	p.killed, p.pause = true, pause
	return true
}

// freeze stops the process with a signal, and reports whether it succeeded.
func (p *member) freeze() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.killed || p.frozen || !signalStop(p.cmd.Process) {
		return false
	}
	p.frozen = true
	return true
}

// thaw continues a frozen process.
func (p *member) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.frozen {
		signalContinue(p.cmd.Process)
	}
	p.frozen = false
}

// signal sends the process a signal to end.
func (p *member) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.killed = true
		_ = p.cmd.Process.Signal(s) // it may have ended already
	}
}

// byItself returns how the process ended without being asked to.
func (p *member) byItself() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// stop ends all processes: properly, kind by kind, and by force those that have not ended within grace, or all at once if grace is 0. It returns the
// names of those that were forced.
func (t *troupe) stop(grace time.Duration) []string {
	close(t.ending)
	var forced []string
	if grace > 0 {
		for _, kind := range []string{kindClient, kindAgent, kindReplica, kindServer} {
			some := t.all(kind)
			for _, p := range some {
				p.thaw()
				p.signal(endSignal)
			}
			late := time.After(grace)
			for _, p := range some {
				select {
				case <-p.stopped:
				case <-late:
					forced = append(forced, p.name)
					late = time.After(0)
				}
			}
		}
	}
	for _, p := range t.all("") {
		p.signal(os.Kill)
	}
	for _, p := range t.all("") {
		<-p.stopped
	}
	close(t.spawn)
	return forced
}
