package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/taskfile"
)

const (
	// lockFile is locked by whoever changes files that others change too: what two write at the same time, the second would take back.
	lockFile = ".lock"
	lockWait = 30 * time.Second
)

// lock waits until nobody else changes the folder. What a process had locked that was killed is free.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockWait); !taskfile.Lock(f); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_ = f.Close()
			return nil, fmt.Errorf("another process changes the keys in %s, and does not end", dir)
		}
	}
	return func() { _ = f.Close() }, nil
}
