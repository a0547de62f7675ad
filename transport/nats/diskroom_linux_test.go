package nats

import (
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestSmallDisk fills a small disk with files as fast as possible: the disk is never full, and the server keeps working. Where no disk can be
// mounted, the test only logs that.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Logf("NOTHING WAS TESTED: a small disk cannot be mounted here: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	b, err := Dial(t.Context(), &Options{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := &filler{b: b, from: "user"}
	for end := time.Now().Add(patience); ; {
		err := f.put(t, transport.FileChunk)
		if filesFull(err) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("chunk %d: %v", f.n, err)
		}
	}
	t.Logf("%d chunks of %d were taken", f.n-1, transport.FileChunk)
	if err := b.keep(t.Context()); err != nil {
		t.Errorf("something else is stored: %v", err)
	}
	select {
	case err := <-srv.Broken():
		t.Errorf("the server has given its store up: %v", err)
	default:
	}
	// Removing files makes room again.
	if err := b.removeFiles(t.Context(), filePrefix+">"); err != nil {
		t.Fatal(err)
	}
	f.until(t, "when files were removed", func(err error) bool { return err == nil })
}
