//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// Isolate does nothing: there are no process groups.
func Isolate(*exec.Cmd) {}

// Terminate kills the program, but not what it started.
func Terminate(p *os.Process, _ string) error { return p.Kill() }

// IsGone returns true: other processes are not known.
func IsGone(int, string) bool { return true }

// KillGroup does nothing.
func KillGroup(int) {}
