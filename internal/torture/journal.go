package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// What a client records about a message.
const (
	opIntent   = "intent"   // it is about to be sent
	opAccepted = "accepted" // the transport has accepted it
	opAnswer   = "answer"   // an answer to it was seen
)

// record is a line of a client's file.
type record struct {
	Time    time.Time `json:"t"`
	Op      string    `json:"op"`
	Context string    `json:"context"`
	ID      string    `json:"id"` // of the message
	N       int       `json:"n"`  // its index in the conversation
	Answer  string    `json:"answer,omitempty"`
	Text    string    `json:"text,omitempty"` // of the answer
	Via     string    `json:"via,omitempty"`  // where the answer was seen: live, or in the log
}

// journal is a client's file. When add returns, the record is on the disk.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

// openJournal opens a client's file for appending, and returns its records. It removes a truncated last line.
func openJournal(path string) (*journal, []record, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	records, size, err := parseRecords(old)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := f.Truncate(int64(size)); err != nil {
		f.Close()
		return nil, nil, err
	}
	return &journal{f: f}, records, nil
}

// parseRecords decodes the complete lines of a client's file, and returns their size in bytes.
func parseRecords(b []byte) (records []record, size int, err error) {
	for {
		end := bytes.IndexByte(b[size:], '\n')
		if end < 0 {
			return records, size, nil
		}
		var r record
		if err := json.Unmarshal(b[size:size+end], &r); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
		size += end + 1
	}
}

// add writes a record and returns when it is on the disk. It is safe for concurrent use.
func (j *journal) add(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(b, '\n')); err != nil {
		return err
	}
	return j.f.Sync()
}

// close closes the file; nothing may be added any more.
func (j *journal) close() { _ = j.f.Close() } // all is on the disk
