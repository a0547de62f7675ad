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
	recordAge  = 7 * 24 * time.Hour // no task is redelivered later
	maxRecords = 10_000
	maxJournal = 256 << 20 // bytes of all records
	maxRecord  = 64 << 20  // bytes of one record
	sweepEvery = 256       // calls
)

// States of a record.
const (
	taken  = "taken"  // the call was not sent
	sent   = "sent"   // the call may have been sent
	done   = "done"   // the record has the outcome
	asking = "asking" // the server has asked a question
)

// record is the journal's entry for a task. It is written before the call is sent and again before the task's result is acknowledged, so that
// after a crash it is known whether the call may be made.
type record struct {
	// Message is the id of the task's latest message; a reply or another attempt has a new one.
	Message string `json:"message"`
	// Deliveries counts the deliveries of Message that this journal has seen.
	Deliveries int    `json:"deliveries"`
	State      string `json:"state"`

	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`  // the server's CallToolResult
	Failure   string          `json:"failure,omitempty"` // if there is no result

	Question *question `json:"question,omitempty"` // the server's last question
}

// journal keeps an agent's records, one file each, in a folder that is locked by one process.
type journal struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	begun int
}

// openJournal opens the journal in folder and creates the folder if necessary.
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

// path returns the file of a task's record.
func (j *journal) path(t *agents.Task) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{t.Tenant, t.ContextID, string(t.ID)}, "\x00")))
	return filepath.Join(j.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns a task's record, or nil.
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

// write writes and syncs a task's record.
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

// sweep removes old records, and the oldest ones if there are too many. Should a task without its record be redelivered, its outcome is unknown.
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

// writeFile writes a file atomically and syncs it.
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
	_ = dir.Sync() // not all systems can sync folders
	return dir.Close()
}
