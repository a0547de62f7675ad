package rockbottest

import "os/exec"

func endGroup(c *exec.Cmd) { _ = c.Process.Kill() }

func terminate(c *exec.Cmd) error { return c.Process.Kill() }

func group(*exec.Cmd) {}
