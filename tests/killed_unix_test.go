//go:build unix

package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// What the tests have in common that kill processes at random.

// killing returns how often a test kills, unless the variable NAME_KILLS says otherwise, and what its randomness starts from, which it logs and
// NAME_SEED sets.
func killing(t *testing.T, name string, otherwise int) (kills int, seed uint64) {
	t.Helper()
	kills = int(numberVar(t, name+"_KILLS", int64(otherwise)))
	seed = uint64(numberVar(t, name+"_SEED", time.Now().UnixNano()))
	t.Logf("%s_SEED=%d", name, seed)
	return kills, seed
}

// numberVar returns the number in an environment variable.
func numberVar(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// beginKilled begins a process that is killed and begun again, and ends with the test, which shows the end of what it has logged if it fails.
func beginKilled(t *testing.T, name, log string, start func() *exec.Cmd) *process {
	t.Helper()
	p := &process{log: log, start: start}
	p.begin(t, name)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", name, endOf(p.log))
		}
	})
	return p
}

// serveKilled begins a Cortex without agents in a folder, with more arguments and variables, as [beginKilled] does.
func serveKilled(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	cortex := cortexPath(t)
	return beginKilled(t, "Cortex", filepath.Join(dir, "cortex.log"), func() *exec.Cmd {
		c := exec.Command(cortex, append([]string{"serve", "--http", "none", "--agents", "none", "--sync", "always", "--data", filepath.Join(dir, "data")}, args...)...)
		c.Env = append(c.Environ(), env...)
		return c
	})
}

// awaitMore returns when n has grown.
func awaitMore(ctx context.Context, t *testing.T, n *atomic.Int64) {
	t.Helper()
	for before := n.Load(); n.Load() == before; <-time.After(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("nothing is answered")
		}
	}
}
