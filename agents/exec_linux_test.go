package agents_test

import (
	"os"
	"os/exec"
	"testing"
)

// A program does not live on when its agent is killed.
func TestExecDiesWithItsAgent(t *testing.T) {
	t.Parallel()
	g := newGrip(t)
	host := exec.Command(os.Args[0], g.path)
	host.Env = append(os.Environ(), asProgram+"=host")
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	g.wait(t, g.held, "the program was not started")
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	g.wait(t, g.gone, "the program lives on")
}
