package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
)

// cost is what was used by some turns.
type cost struct {
	cpu                 float64 // of all processes but the one with the model, in microseconds
	serve               float64 // of the first of the other processes
	objects             float64 // that this process allocated
	sent, stored, bytes float64 // messages that this process sent, messages that the server stored, and bytes that this process wrote to files
}

func (c *cost) add(o cost, sign float64) {
	c.cpu += sign * o.cpu
	c.serve += sign * o.serve
	c.objects += sign * o.objects
	c.sent += sign * o.sent
	c.stored += sign * o.stored
	c.bytes += sign * o.bytes
}

// costs returns what was used so far by this process, the node, and the other processes with these pids.
func (n *node) costs(ctx context.Context, pids []int) (c cost, err error) {
	for i, pid := range append(slices.Clone(pids), os.Getpid()) {
		cpu := cpuOf(pid)
		if c.cpu += cpu; i == 0 {
			c.serve = cpu
		}
	}
	c.bytes = field("/proc/self/io", "wchar:")
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	c.objects = float64(sample[0].Value.Uint64())
	for _, b := range n.buses() {
		c.sent += float64(b.Conn().Stats().OutMsgs)
	}
	stored, err := n.stored(ctx)
	c.stored = float64(stored)
	return c, err
}

// cpuOf returns the processor time that a process has used, in microseconds; 0 where the system does not say it in that way.
func cpuOf(pid int) (sum float64) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is a good one
	for _, path := range threads {
		b, err := os.ReadFile(path)
		var ns float64
		if err == nil {
			fmt.Sscan(string(b), &ns) //nolint:errcheck // 0 then
		}
		sum += ns / 1000
	}
	return sum
}

// field returns a number of a file of the system, or 0.
func field(path, name string) (x float64) {
	b, _ := os.ReadFile(path) // not everywhere
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			fmt.Sscan(rest, &x) //nolint:errcheck // 0 then
		}
	}
	return x
}
