//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// Isolate does nothing: there are no process groups here.
func Isolate(*exec.Cmd) {}

// NewMark names a run.
func NewMark() string { return "1" }

// Terminate kills the program, but not what it started.
func Terminate(p *os.Process, _ string) error { return p.Kill() }

// IsGone is always true: nothing is known of other processes here.
func IsGone(int, string) bool { return true }

// KillAll does nothing.
func KillAll(int, string) {}

// KillOrphans does nothing.
func KillOrphans() {}

// Name is empty: this process is not told from others.
func Name() string { return "" }

// IsOrphan is always false.
func IsOrphan(string) bool { return false }

// KillGroup does nothing.
func KillGroup(int) {}
