package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// When a data folder is free, processes take it in this order: a service that waits for it, a chat that had joined the previous Cortex and continues
// with its settings, then any other.

// queueFile is locked by a service that waits for the data folder. It precedes chats that would take over.
func queueFile(data string) string { return filepath.Join(data, "queue") }

// queue tells chats that this process waits for the data folder, until leave is called.
func queue(data string) (leave func()) {
	f, err := os.OpenFile(queueFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {} // it waits without precedence
	}
	if tryLock(f) != nil { // another service waits, too
		f.Close()
		return func() {}
	}
	return func() { f.Close() }
}

// takeoverFile has a shared lock of all chats that would take over.
func takeoverFile(data string) string { return filepath.Join(data, "heirs") }

// announceTakeover tells other processes that this one would take over, from a call of enter until leave. enter is called repeatedly, since a process that
// looks at the lock may have it for a moment.
func announceTakeover(data string) (enter func(), leave func()) {
	f, err := os.OpenFile(takeoverFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, func() {} // it takes over all the same, unless another process is faster
	}
	in := false
	return func() { in = in || shareLock(f) == nil }, func() { f.Close() }
}

// turn is the place in the order of a chat or a question that has just started.
type turn struct {
	e    *env
	end  time.Time // how long it waits for processes with precedence
	told bool
}

func (e *env) newTurn() *turn { return &turn{e: e} }

// await returns when this process may join the Cortex of the data folder, or start one. It waits for processes with precedence, and for the end of a
// chat whose Cortex has no keys when this process was given some.
func (t *turn) await(ctx context.Context) error {
	s := &t.e.settings
	for {
		a, runs, err := findAddress(ctx, s.data)
		if err != nil {
			return err
		}
		keyless := runs && s.node.auth != "" && a.Node.of("auth") == ""
		first := ""
		if !runs {
			first = precedence(s.data)
		}
		switch {
		case keyless && !a.Passing:
			return s.errNoKeys(a)
		case keyless && !t.told:
			t.told = true
			fmt.Fprintf(t.e.stderr, "cortex: waiting for the data folder: a chat or a question (process %d) runs on %s without keys: stop it, or leave --auth out\n", a.PID, s.data)
		case keyless:
		case first == "":
			return nil
		case t.end.IsZero():
			t.end = time.Now().Add(behindGateway)
		case time.Now().After(t.end):
			return fmt.Errorf("no cortex runs on %s: %s cannot, and says why: mend that, end it, or start `cortex serve`", s.data, first)
		}
		if err := rest.For(ctx, waitingPause); err != nil {
			return err
		}
	}
}

// precedence returns which process has precedence over a new chat or question on a free data folder, or "".
func precedence(data string) string {
	last, ok := lastAddress(data)
	switch {
	case locked(queueFile(data)):
		return "a service that waits for it"
	case ok && last.Passing && locked(takeoverFile(data)):
		return "a chat that is open and was to go on as the last one"
	}
	return ""
}
