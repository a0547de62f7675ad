package process

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// Isolate puts the program into its own process group, and lets it die with this process, however that ends.
func Isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxSweeps bounds how often killMatching lists the processes, since these may start others meanwhile.
const maxSweeps = 10

// NewMark returns the identity of a run: the agent's process id, its start time, its session, and a random id.
func NewMark() string {
	self, _ := lookAt(os.Getpid())
	return fmt.Sprintf("%d.%d.%d.%s", self.pid, self.start, self.session, uuid.NewString())
}

// Terminate sends SIGTERM to the program and all that it started.
func Terminate(p *os.Process, mark string) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	for q := range processes() {
		if q.group != p.Pid && q.mark() == mark {
			q.signal(syscall.SIGTERM)
		}
	}
	return err
}

// IsGone reports whether no process of a run is left; pid is the run's program.
func IsGone(pid int, mark string) bool {
	for q := range processes() {
		if q.group == pid || q.mark() == mark {
			return false
		}
	}
	return true
}

// KillAll kills the remaining processes of a run.
func KillAll(pid int, mark string) {
	killMatching(func(q *process) bool { return q.group == pid || q.mark() == mark })
}

// KillOrphans kills processes started by programs whose agent was killed, so that they do not run beside the task's next run. It spares daemons
// with a session of their own, which may be meant to stay.
func KillOrphans() {
	mine := pidNamespace("self")
	killMatching(func(q *process) bool {
		var agent process
		if n, _ := fmt.Sscanf(q.mark(), "%d.%d.%d.", &agent.pid, &agent.start, &agent.session); n < 3 || q.session != agent.session {
			return false
		}
		if ns := pidNamespace(strconv.Itoa(q.pid)); ns == "" || ns != mine { // in another name space the same ids are other processes
			return false
		}
		now, ok := lookAt(agent.pid)
		return !ok || now.start != agent.start
	})
}

// Name identifies this process on this system, also after it has ended: its PID name space, process id and start time.
func Name() string {
	self, _ := lookAt(os.Getpid())
	return fmt.Sprintf("%s.%d.%d", namespaceNumber(), self.pid, self.start)
}

// IsOrphan reports whether name begins with the Name of an ended process of this name space.
func IsOrphan(name string) bool {
	rest, ok := strings.CutPrefix(name, namespaceNumber()+".")
	var p process
	if n, _ := fmt.Sscanf(rest, "%d.%d-", &p.pid, &p.start); !ok || n < 2 {
		return false
	}
	now, runs := lookAt(p.pid)
	return !runs || now.start != p.start
}

func namespaceNumber() string { return strings.Trim(pidNamespace("self"), "pid:[]") }

// killMatching kills matching processes until none is left, in at most maxSweeps passes.
func killMatching(match func(*process) bool) {
	for range maxSweeps {
		found := false
		for q := range processes() {
			if match(&q) {
				found = true
				q.signal(syscall.SIGKILL)
			}
		}
		if !found {
			return
		}
	}
}

// process is a running process.
type process struct {
	pid, group, session int
	start               uint64 // in clock ticks since the system booted
}

// processes yields the other running processes, without zombies.
func processes() iter.Seq[process] {
	return func(yield func(process) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(-1) // use what could be read
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == os.Getpid() {
				continue
			}
			if p, ok := lookAt(pid); ok && !yield(p) {
				return
			}
		}
	}
}

// lookAt returns the process with an id, or false when none is running.
func lookAt(pid int) (process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The program's name, in parentheses, may contain anything. After it come state, parent, group, session, …; the 20th field is the start.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return process{}, false
	}
	p := process{pid: pid}
	p.group, _ = strconv.Atoi(f[2])
	p.session, _ = strconv.Atoi(f[3])
	p.start, _ = strconv.ParseUint(f[19], 10, 64)
	return p, true
}

// mark returns the mark of the run that the process belongs to, or "" if there is none or the process is another user's.
func (p *process) mark() string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if mark, ok := bytes.CutPrefix(v, []byte(MarkVar+"=")); ok {
			return string(mark)
		}
	}
	return ""
}

// signal sends s to the process, but not to a later process with the same id.
func (p *process) signal(s os.Signal) {
	q, err := os.FindProcess(p.pid) // a handle that stays with the process
	if err != nil {
		return
	}
	defer q.Release() //nolint:errcheck // nothing can be done about it
	if now, ok := lookAt(p.pid); ok && now.start == p.start {
		_ = q.Signal(s) // it may have ended
	}
}

// pidNamespace returns the name of a process's PID name space.
func pidNamespace(pid string) string {
	name, _ := os.Readlink("/proc/" + pid + "/ns/pid")
	return name
}
