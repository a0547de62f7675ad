//go:build !unix

package torture

import "os"

// endSignal ends a process; this system has no gentler signal.
var endSignal = os.Kill

func signalStop(*os.Process) bool { return false }

func signalContinue(*os.Process) {}
