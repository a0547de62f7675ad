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

// Isolate gives the program a process group of its own, and lets it die with this process, however that ends.
func Isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxSweeps bounds how often everything is looked through for what has yet to be killed: it may start more meanwhile.
const maxSweeps = 10

// NewMark returns what names a run: the agent's process, when that began, its session, and a random text.
func NewMark() string {
	self, _ := lookAt(os.Getpid())
	return fmt.Sprintf("%d.%d.%d.%s", self.pid, self.start, self.session, uuid.NewString())
}

// Terminate asks the program and all that it started to end.
func Terminate(p *os.Process, mark string) error {
	err := syscall.Kill(-p.Pid, syscall.SIGTERM)
	for q := range processes() {
		if q.group != p.Pid && q.mark() == mark {
			q.signal(syscall.SIGTERM)
		}
	}
	return err
}

// IsGone reports whether nothing is left of a run whose program was the process pid.
func IsGone(pid int, mark string) bool {
	for q := range processes() {
		if q.group == pid || q.mark() == mark {
			return false
		}
	}
	return true
}

// KillAll kills what is left of a run.
func KillAll(pid int, mark string) {
	killMatching(func(q *process) bool { return q.group == pid || q.mark() == mark })
}

// KillOrphans kills what programs had started whose agent was killed, so that it is not at work beside the task's next run. What
// made itself a daemon, in a session of its own, may have been meant to stay.
func KillOrphans() {
	mine := pidNamespace("self")
	killMatching(func(q *process) bool {
		var agent process
		if n, _ := fmt.Sscanf(q.mark(), "%d.%d.%d.", &agent.pid, &agent.start, &agent.session); n < 3 || q.session != agent.session {
			return false
		}
		if ns := pidNamespace(strconv.Itoa(q.pid)); ns == "" || ns != mine { // there, other processes have these numbers
			return false
		}
		now, ok := lookAt(agent.pid)
		return !ok || now.start != agent.start
	})
}

// Name names this process among all that there were on this system: the space in which it has its id, that, and when it began.
func Name() string {
	self, _ := lookAt(os.Getpid())
	return fmt.Sprintf("%s.%d.%d", namespaceNumber(), self.pid, self.start)
}

// IsOrphan reports whether what begins with a Name is of a process of this space that has ended.
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

// killMatching kills processes until there are none.
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

// process is one that runs.
type process struct {
	pid, group, session int
	start               uint64 // in ticks since the system's
}

// processes yields the other processes that run, zombies excepted.
func processes() iter.Seq[process] {
	return func(yield func(process) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(-1) // what could be read is as good as it gets
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

// lookAt returns the process with an id, or false when there is none that runs.
func lookAt(pid int) (process, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The program's name, in parentheses, may hold anything. Behind it come state, parent, group, session, …, and 20th the start.
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

// mark returns the run that the process belongs to, "" where there is none, or where it is another user's.
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

// signal sends s to the process, and to no other that has got its number.
func (p *process) signal(s os.Signal) {
	q, err := os.FindProcess(p.pid) // by a handle that stays with the process
	if err != nil {
		return
	}
	defer q.Release() //nolint:errcheck // nothing is to be done
	if now, ok := lookAt(p.pid); ok && now.start == p.start {
		_ = q.Signal(s) // it may have ended
	}
}

// pidNamespace names the space in which a process has its id.
func pidNamespace(pid string) string {
	name, _ := os.Readlink("/proc/" + pid + "/ns/pid")
	return name
}
