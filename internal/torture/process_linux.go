package torture

import (
	"os/exec"
	"syscall"
)

// isolate gives the program a process group of its own, so that Ctrl-C does not reach it, and makes it die with this process, however that ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
