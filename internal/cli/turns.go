package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Who may run Cortex on a data folder that is free: first a service that waits for it, then a chat that had joined the one before and goes on
// as that was set, then whoever comes.

// queueFile is locked by a service that waits for the data folder. It comes before the chats that would take over.
func queueFile(data string) string { return filepath.Join(data, "queue") }

// queue says to chats that this process waits for the data folder, until leave is called.
func queue(data string) (leave func()) {
	f, err := os.OpenFile(queueFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {} // it is its turn all the same, only not for sure
	}
	if tryLock(f) != nil { // another service waits too
		f.Close()
		return func() {}
	}
	return func() { f.Close() }
}

// heirsFile is locked by all chats together that would take over.
func heirsFile(data string) string { return filepath.Join(data, "heirs") }

// inherit says to others that this process would take over, from when it gets the lock, which somebody who looks may have for a moment, until
// leave is called.
func inherit(data string) (enter func(), leave func()) {
	f, err := os.OpenFile(heirsFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, func() {} // it takes over all the same, unless somebody is faster
	}
	in := false
	return func() { in = in || shareLock(f) == nil }, func() { f.Close() }
}

// turn is that of a chat or a question that has just come.
type turn struct {
	e    *env
	end  time.Time // until when it waits for others that go first
	told bool
}

func (e *env) newTurn() *turn { return &turn{e: e} }

// await returns when this process may join the Cortex that runs on the data folder, or start one: not where one runs without keys that this
// one was told to have, which ends with its user, and not before those that go first.
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
			first = goesFirst(s.data)
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
		if err := rest(ctx, waitingPause); err != nil {
			return err
		}
	}
}

// goesFirst returns who takes a data folder that is free before a chat or a question that has just come, or "".
func goesFirst(data string) string {
	last, ok := lastAddress(data)
	switch {
	case locked(queueFile(data)):
		return "a service that waits for it"
	case ok && last.Passing && locked(heirsFile(data)):
		return "a chat that is open and was to go on as the last one"
	}
	return ""
}
