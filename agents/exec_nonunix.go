//go:build !unix

package agents

import (
	"os"
	"os/exec"
)

func isolate(*exec.Cmd) {}

// terminate kills the program, but not what it started.
func terminate(p *os.Process, _ string) error { return p.Kill() }

func isGone(int, string) bool { return true }

func killGroup(int) {}
