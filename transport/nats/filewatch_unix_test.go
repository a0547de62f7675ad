//go:build unix

package nats

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServerWaits has a server that does not answer the watch, as when its disk hangs: that is told, until it answers again. With a pipe in the place of a
// block, for which a server may wait without end, it has to be started again.
func TestServerWaits(t *testing.T) {
	var log textLog
	n := newNode(t, ServerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	silent := func() bool {
		n.srv.files.listen(time.Now().Add(silentAfter))
		serious, err := n.srv.Missing()
		return serious && errors.Is(err, errSilent)
	}
	n.srv.files.mu.Lock() // a look ends when it is free
	n.srv.memory.mu.Lock()
	eventually(t, "that the server is silent", silent)
	if found := n.srv.Found(); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	n.srv.memory.mu.Unlock()
	select {
	case err := <-n.srv.Broken():
		t.Errorf("the server is given up while its disk may only be slow: %v", err)
	default:
	}
	n.srv.files.mu.Unlock()
	eventually(t, "that the server answers", func() bool { return strings.Contains(log.String(), "the server answers again") })
	if got := log.String(); !strings.Contains(got, "level=ERROR msg=\"nothing is stored or read: ") {
		t.Errorf("the log has %s", got)
	}

	pipe := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", "CORTEX_TEST", "msgs", "1.blk")
	if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	n.srv.files.mu.Lock()
	eventually(t, "that the server is silent", silent)
	n.srv.files.mu.Unlock()
	if err := receive(t, n.srv.Broken()); !strings.Contains(err.Error(), pipe) {
		t.Errorf("the server is given up for %v, want %s", err, pipe)
	}
	if err := os.RemoveAll(filepath.Dir(filepath.Dir(pipe))); err != nil {
		t.Fatal(err)
	}
}

// TestPipeForFolder has a pipe in the place of a stream's folder of messages while the server runs: looking there does not block.
func TestPipeForFolder(t *testing.T) {
	n := newNode(t, ServerOptions{})
	publish(t, n.dial(t, nil), orchestratorInbox, "c1", "hello")
	msgs := filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs")
	if err := errors.Join(os.Rename(msgs, msgs+".old"), syscall.Mkfifo(msgs, 0o600)); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{}, 1)
	go func() {
		n.srv.files.end()
		looked <- struct{}{}
	}()
	receive(t, looked)
	if serious, err := n.srv.Missing(); !serious || err == nil {
		t.Errorf("Missing = %v, %v, want that the files are missing", serious, err)
	}
}
