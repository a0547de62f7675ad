package sdk_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// TestPackages runs the packages' own tests. A language that is not on this machine is told of in a line, and is a failure in CI.
func TestPackages(t *testing.T) {
	for _, command := range [][]string{
		{"python3", "-m", "unittest", "discover", "python/tests"},
		{"node", "--test", "typescript/test/"},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			if os.Getenv("CI") != "" {
				t.Errorf("%v: CI has to have it", err)
			}
			fmt.Fprintf(os.Stderr, "NOT RUN: the tests of sdk in %s: there is no %s on this machine\n", command[0], command[0])
			continue
		}
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), command[0], command[1:]...)
			c.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%q: %v\n%s", command, err, out)
			}
		})
	}
}
