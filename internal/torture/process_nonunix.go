//go:build !unix

package torture

import (
	"os"
	"os/exec"
)

// endSignal ends a process; this system has no gentler signal.
var endSignal = os.Kill

func isolate(*exec.Cmd) {}

func signalStop(*os.Process) bool { return false }

func signalContinue(*os.Process) {}
