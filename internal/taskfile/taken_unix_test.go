//go:build unix

package taskfile_test

import "strings"

func isTaken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "it is an agent already")
}
