//go:build unix

package process

import "syscall"

// KillGroup kills what is left of the group that pid leads or led.
func KillGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
