package storecheck

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// EraseTimers removes the lists of timers of all known streams, after the server has ended. The server keeps a removed timer in its list until the
// timer's time, with a subject that names a conversation, which may have been deleted. The next server makes the list from the messages.
func (m *Memory) EraseTimers(dir string) error {
	for name := range m.Streams {
		root, err := streamDir(dir, name)
		if err != nil {
			return err
		}
		if err := wipe(filepath.Join(root, messagesDir, timerState)); err != nil {
			return err
		}
	}
	return nil
}

// RemoveIndexes removes the indexes of all known streams, after a server has ended that could not write what it had. It writes its state into them all
// the same, and the next server would go by it. That one makes them from the messages.
func (m *Memory) RemoveIndexes(dir string) error {
	for name := range m.Streams {
		root, err := streamDir(dir, name)
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(root, messagesDir, indexState)); unlessGone(err) != nil {
			return err
		}
	}
	return nil
}

// wipe overwrites a file and removes it. It only removes a file that is larger than maxDerived, such as a sparse one, or that cannot be
// overwritten, as on a full disk. A missing file is no error.
func wipe(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return unlessGone(err)
	}
	if info.Mode().IsRegular() && info.Size() <= maxDerived {
		_ = overwrite(path, info.Size())
	}
	return unlessGone(os.Remove(path))
}

// overwrite writes zeros over the first size bytes of a file.
func overwrite(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, zeros{}, size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
