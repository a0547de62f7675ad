//go:build unix

package torture

import (
	"os"
	"syscall"
)

// endSignal asks a process to end properly.
var endSignal os.Signal = syscall.SIGTERM

func signalStop(p *os.Process) bool { return p.Signal(syscall.SIGSTOP) == nil }

func signalContinue(p *os.Process) { _ = p.Signal(syscall.SIGCONT) } // it may have been killed
