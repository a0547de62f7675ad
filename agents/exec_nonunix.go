//go:build !unix

package agents

import (
	"os"
	"os/exec"
)

func isolate(*exec.Cmd) {}

func newMark() string { return "1" }

// terminate kills the program, but not what it started.
func terminate(p *os.Process, _ string) error { return p.Kill() }

func isGone(int, string) bool { return true }

func killAll(int, string) {}

func killOrphans() {}

func processName() string { return "" }

func isOrphan(string) bool { return false }

func killGroup(int) {}
