package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/internal/document"
)

// Bounds of the journal.
const (
	recordAge  = 7 * 24 * time.Hour // no task comes again later
	maxRecords = 10_000
	maxJournal = 256 << 20 // bytes of all records
	maxRecord  = 64 << 20  // of one
	sweepEvery = 256       // records that are begun
)

// What became of the call of a task, as far as its record says.
const (
	taken  = "taken"  // nothing was sent yet
	sent   = "sent"   // it may have been done
	done   = "done"   // it was done, and this came of it
	asking = "asking" // the server has asked something
)

// record is what is known of a task's call. Each task has one, which is written before the call is made, and once more before what came of it is
// acknowledged: who reads it after a crash knows whether the call may be made.
type record struct {
	// Message is the task's message that the record is for: another attempt at it, or a reply, has another one.
	Message string `json:"message"`
	// Deliveries is how many deliveries of the message this journal has seen.
	Deliveries int    `json:"deliveries"`
	State      string `json:"state"`

	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`  // as the server gave it
	Failure   string          `json:"failure,omitempty"` // in its place

	Question *question `json:"question,omitempty"` // that the server has asked last
}

// journal keeps the records of an agent, each in a file of its own, in a folder that one process has at a time.
type journal struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	begun int
}

// openJournal opens the journal in a folder, which it makes.
func openJournal(folder string, now time.Time) (*journal, error) {
	j := &journal{dir: filepath.Join(folder, "calls")}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, fmt.Errorf("no folder for what is asked: %w", err)
	}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("no folder for what is asked: %w", err)
	}
	if !lock(j.lock) {
		return nil, errors.Join(fmt.Errorf("it is an agent already: another process works with %s", folder), j.lock.Close())
	}
	return j, j.sweep(now)
}

func (j *journal) close() error {
	if err := j.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// path is where the record of a task is.
func (j *journal) path(t *agents.Task) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{t.Tenant, t.ContextID, string(t.ID)}, "\x00")))
	return filepath.Join(j.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns the record of a task, nil when there is none.
func (j *journal) read(t *agents.Task) (*record, error) {
	b, _, err := document.ReadRegular(j.path(t), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(b, r)
	}
	if err != nil {
		return nil, fmt.Errorf("what was asked before cannot be read: %w", err)
	}
	if r.Question != nil && r.Question.Answers == nil {
		r.Question.Answers = sdk.InputResponseMap{}
	}
	return r, nil
}

// write keeps the record of a task.
func (j *journal) write(t *agents.Task, r *record) error {
	b, err := json.Marshal(r)
	if err == nil {
		err = writeFile(j.path(t), b)
	}
	if err != nil {
		return fmt.Errorf("what is asked cannot be kept: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.State == taken {
		j.begun++
	}
	if j.begun >= sweepEvery {
		j.begun = 0
		return j.sweep(time.Now())
	}
	return nil
}

// sweep removes what is old, and the oldest of what is too much. A task whose record is gone is one whose outcome is unknown, when it comes again.
func (j *journal) sweep(now time.Time) error {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	var all []fs.FileInfo
	size := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, info)
			size += info.Size()
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for i, info := range all {
		if now.Sub(info.ModTime()) < recordAge && len(all)-i <= maxRecords && size <= maxJournal {
			break
		}
		size -= info.Size()
		if err := os.Remove(filepath.Join(j.dir, info.Name())); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that is there as a whole or not at all, also after the machine has lost its power.
func writeFile(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	_ = dir.Sync() // where folders cannot be synced, the name is as safe as it gets
	return dir.Close()
}
