package a2a

import (
	"fmt"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
)

// TestLinesAreShared: when the tasks of a few have all lines, those of others get some of them; who has fewer does not wait for who has most.
func TestLinesAreShared(t *testing.T) {
	o := &outbox{lines: map[lineKey]*line{}, of: map[string]int{}}
	began := time.Now()
	var stopped []*line
	begin := func(user string) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.admits(user) {
			return false
		}
		l := &line{c: &caller{Client: &client.Client{User: user}}, key: user, id: fmt.Sprint(len(o.lines), "-", began), began: began}
		began = began.Add(time.Second)
		l.stop = func() { stopped = append(stopped, l) }
		o.begin(lineKey{l.key, l.id}, l)
		return true
	}
	for i := range mostLines {
		if !begin(fmt.Sprint("user:", i%8)) {
			t.Fatalf("line %d does not begin", i)
		}
	}
	if begin("user:0") || len(stopped) > 0 {
		t.Error("one more of who has as many as others begins")
	}
	for range 10 {
		if !begin("user:ada") {
			t.Fatal("who has none gets none")
		}
	}
	if len(stopped) != 10 || len(o.lines)-o.ending != mostLines {
		t.Errorf("%d lines were stopped for 10, and %d run", len(stopped), len(o.lines)-o.ending)
	}
	of := map[string]int{}
	for _, l := range stopped {
		of[l.c.user()]++
		o.over(lineKey{l.key, l.id}, l)
	}
	for user, n := range of {
		if n > 2 {
			t.Errorf("%d lines of %s were stopped, want them of all eight", n, user)
		}
	}
	if o.ending != 0 || len(o.lines) != mostLines || o.of["user:ada"] != 10 {
		t.Errorf("%d lines end, %d run, and %d of ada", o.ending, len(o.lines), o.of["user:ada"])
	}
	for at, l := range o.lines {
		o.over(at, l)
	}
	if len(o.of) != 0 {
		t.Errorf("of %v some are left", o.of)
	}
}
