package rockbottest

import "os/exec"

func endGroup(c *exec.Cmd) { _ = c.Process.Kill() }

func group(*exec.Cmd) {}
