package tests

import (
	"os/exec"
	"testing"
)

// cortexPath returns the path of the program.
func cortexPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("cortex")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
