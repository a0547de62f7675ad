package datadir

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestClaimLost removes or replaces the files of a claim in every possible way.
func TestClaimLost(t *testing.T) {
	write := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for name, test := range map[string]struct {
		do   func(data string) error
		want string
	}{
		"nothing":              {func(string) error { return nil }, ""},
		"other files":          {func(data string) error { return write(filepath.Join(data, "other")) }, ""},
		"the lock":             {func(data string) error { return os.Remove(lockFile(data)) }, "lock was removed while cortex runs"},
		"another lock":         {func(data string) error { os.Remove(lockFile(data)); return write(lockFile(data)) }, "lock was replaced while cortex runs"},
		"the folder":           {os.RemoveAll, "data was removed while cortex runs: what it would store"},
		"the folder, moved":    {func(data string) error { return os.Rename(data, data+".old") }, "data was removed while cortex runs: what it would store"},
		"the store":            {func(data string) error { return os.Remove(filepath.Join(data, "nats")) }, "nats was removed while cortex runs: what it would store"},
		"the folder, replaced": {func(data string) error { os.Rename(data, data+".old"); return os.Mkdir(data, 0o700) }, "data was replaced while cortex runs: what it would store"},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			c, err := Take(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			if err := os.Mkdir(filepath.Join(data, "nats"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.KeepStore(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := LeaveAddress(data, Address{URL: "nats://127.0.0.1:1"}); err != nil {
				t.Fatal(err)
			}
			if err := test.do(data); err != nil {
				t.Fatal(err)
			}
			err = c.lost()
			if got := err != nil; got != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("lost() = %v, want %q", err, test.want)
			}
		})
	}
}

// TestStoreOfTwoFolders has two data folders that lead to one store: only one process at a time has it, whether the store was there before the process or
// is made by it, and a process that ends, or gives up, leaves it to the next.
func TestStoreOfTwoFolders(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("NOT CHECKED: Windows does not lock folders")
		return
	}
	synctest.Test(t, func(t *testing.T) {
		first, second, store := t.TempDir(), t.TempDir(), t.TempDir()
		lead := func(data string) {
			t.Helper()
			if err := os.Symlink(store, Store(data)); err != nil {
				t.Fatal(err)
			}
		}
		refused := func() {
			t.Helper()
			c, err := Take(t.Context(), second)
			if err == nil {
				c.Release()
			}
			if err == nil || errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), Store(second)+" is in use") {
				t.Errorf("a second process on the store: %v", err)
			}
		}
		c, err := Take(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.KeepStore(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a store: %v", err)
		}
		lead(first)
		lead(second)
		if err := c.KeepStore(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused()
		c.Release()
		if c, err = Take(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		refused()
		go func() {
			time.Sleep(time.Second) // as long as the end of a process takes
			c.Release()
		}()
		next, err := Take(t.Context(), second)
		if err != nil {
			t.Fatalf("after the first one has ended: %v", err)
		}
		next.Release()
	})
}

// TestClaimLostLeavesOthersAlone checks that a process that has lost the folder does not remove its new owner's files.
func TestClaimLostLeavesOthersAlone(t *testing.T) {
	data := t.TempDir()
	first, err := Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(lockFile(data)); err != nil {
		t.Fatal(err)
	}
	second, err := Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if err := LeaveAddress(data, Address{URL: "nats://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	first.Release()
	if at, err := WhereNow(data); err != nil || at.URL != "nats://127.0.0.1:1" {
		t.Errorf("the address of the new owner is %+v, %v", at, err)
	}
	if !Held(data) {
		t.Error("the folder of the new owner is free")
	}
}

// TestClaimAwaitsTheOther checks that a process waits for the previous owner, whose lock file was removed and which writes until it notices.
func TestClaimAwaitsTheOther(t *testing.T) {
	data := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := LeaveAddress(data, Address{URL: "nats://" + l.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{})
	go func() {
		defer close(came)
		for range 3 { // the third time it ends
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
		l.Close()
	}()
	c, err := Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	select {
	case <-came:
	default:
		t.Error("it did not wait until the other one had ended")
	}
}

// TestClaimWatches checks that a loss is noticed within a second.
func TestClaimWatches(t *testing.T) {
	data := t.TempDir()
	c, err := Take(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		time.AfterFunc(time.Minute, func() { os.Remove(lockFile(data)) })
		if err := c.Watch(t.Context()); err == nil || time.Since(begin) > time.Minute+time.Second {
			t.Errorf("watch() = %v after %v", err, time.Since(begin))
		}
	})
}
