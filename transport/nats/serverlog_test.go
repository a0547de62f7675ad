package nats

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestBroken logs that the server has given up a store, and other lines.
func TestBroken(t *testing.T) {
	l := newServerLog(nil)
	s := &Server{log: l}
	l.Errorf("JetStream failed to store a msg on stream '%s > %s': %v", "$G", "S", "maximum bytes")
	select {
	case err := <-s.Broken():
		t.Errorf("Broken = %v of what passes", err)
	default:
	}
	for range 3 { // each stream logs it
		l.Errorf("JetStream stream '%s > %s' critical write error: %v", "$G", "S", "no space left on device")
	}
	if err := receive(t, s.Broken()); !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Broken = %v, want what the server said", err)
	}
}

// TestStoreGivenUp checks that each line by which the server gives up its store is recognised, and no line that only quotes such words from a
// stranger.
func TestStoreGivenUp(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "1.blk", Err: syscall.ENOSPC}
	denied := &os.PathError{Op: "open", Path: "2.blk", Err: syscall.EACCES}
	for name, c := range map[string]struct {
		say  func(*serverLog)
		want string // in the reason; "": not recognised
	}{
		"a stream on a full disk": {func(l *serverLog) { l.Errorf("JetStream stream '%s > %s' critical write error: %v", "$G", "S", full) }, "make room"},
		"a block that may not be made": {
			func(l *serverLog) {
				l.Warnf("Filesystem permission denied while writing msg, disabling JetStream: %v", denied)
			}, "chown",
		},
		"all streams":                  {func(l *serverLog) { l.Errorf("File system permission denied while writing, disabling JetStream") }, "chown"},
		"a state that is not written":  {func(l *serverLog) { l.Errorf("Critical write error: %v", denied) }, "chown"},
		"a stranger's words":           {func(l *serverLog) { l.Warnf("%s - disconnected", "disabling JetStream") }, ""},
		"something else that is wrong": {func(l *serverLog) { l.Errorf("%v", denied) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newServerLog(nil)
			c.say(l)
			select {
			case err := <-l.broken:
				if c.want == "" || !strings.Contains(err.Error(), c.want) {
					t.Errorf("it ends: %v, want %q", err, c.want)
				}
			default:
				if c.want != "" {
					t.Errorf("it goes on, want it to end with %q", c.want)
				}
			}
		})
	}
}
