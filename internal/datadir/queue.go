package datadir

import (
	"os"
	"path/filepath"
)

// When a data folder is free, processes take it in this order: a service that waits for it, a chat that had joined the previous Cortex and continues
// with its settings, then any other.

// QueueFile is locked by a service that waits for the data folder. It precedes chats that would take over.
func QueueFile(data string) string { return filepath.Join(data, "queue") }

// Queue tells chats that this process waits for the data folder, until leave is called.
func Queue(data string) (leave func()) {
	f, err := os.OpenFile(QueueFile(data), os.O_RDWR|os.O_CREATE, 0o600)
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

// AnnounceTakeover tells other processes that this one would take over, from a call of enter until leave. enter is called repeatedly, since a process that
// looks at the lock may have it for a moment.
func AnnounceTakeover(data string) (enter func(), leave func()) {
	f, err := os.OpenFile(takeoverFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return func() {}, func() {} // it takes over all the same, unless another process is faster
	}
	in := false
	return func() { in = in || shareLock(f) == nil }, func() { f.Close() }
}

// Precedence returns which process has precedence over a new chat or question on a free data folder, or "".
func Precedence(data string) string {
	last, ok := Last(data)
	switch {
	case Locked(QueueFile(data)):
		return "a service that waits for it"
	case ok && last.Passing && Locked(takeoverFile(data)):
		return "a chat that is open and was to go on as the last one"
	}
	return ""
}
