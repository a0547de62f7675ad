package agents

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
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/agents/jsonl"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of what is kept of questions.
const (
	questionAge      = 30 * 24 * time.Hour
	maxQuestions     = 10_000
	maxQuestion      = 8 << 20 // bytes of a file
	maxQuestionText  = 32 << 10
	maxRounds        = 16 // the latest
	questionsAtATime = 64 // between two sweeps
)

// questions keeps what programs need to go on after a question: a file for each task, in a folder that several agents may share. It keeps nothing
// if dir is empty.
type questions struct {
	dir  string
	asks atomic.Int64
}

// round is what a program asked in the course of a task, in reply to a message.
type round struct {
	Message string `json:"message"`
	jsonl.Round
	State json.RawMessage `json:"state,omitempty"`
}

func openQuestions(dir string) *questions { return &questions{dir: dir} }

// path returns the file of a task.
func (q *questions) path(t *Task) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{t.Tenant, t.ContextID, string(t.ID)}, "\x00")))
	return filepath.Join(q.dir, hex.EncodeToString(sum[:16])+".json")
}

// read returns what was asked before the task's message; nothing if that is not known here.
func (q *questions) read(t *Task) ([]round, error) {
	if q.dir == "" || t.Message == nil || t.Message.Metadata[transport.MetaContinued] != true {
		return nil, nil
	}
	b, _, err := document.ReadRegular(q.path(t), maxQuestion)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []round
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("what was asked before cannot be read: %w", pathless(err))
	}
	// The question of an earlier delivery of this message was not delivered.
	if at := slices.IndexFunc(all, func(r round) bool { return r.Message == t.Message.ID }); at >= 0 {
		all = all[:at]
	}
	return all, nil
}

// replied adds to the line for a program what was said before, if the task is a reply.
func (q *questions) replied(t *Task, given *jsonl.Task) error {
	if t.Message == nil || t.Message.Metadata[transport.MetaContinued] != true {
		return nil
	}
	given.Reply = true
	all, err := q.read(t)
	for _, r := range all {
		given.History, given.State = append(given.History, r.Round), r.State
	}
	return err
}

// asked keeps a question, before it is asked.
func (q *questions) asked(t *Task, given *jsonl.Task, l *jsonl.Line) error {
	if q.dir == "" || t.Message == nil {
		return nil
	}
	all, err := q.read(t)
	if err != nil {
		return err
	}
	all = append(all, round{t.Message.ID, jsonl.Round{Text: shorten.To(given.Text, maxQuestionText), Question: shorten.To(l.Words(), maxQuestionText)}, l.State})
	for i := range all[:max(0, len(all)-2)] {
		all[i].State = nil // that before the last one is of use when this message is delivered again
	}
	all = all[max(0, len(all)-maxRounds):]
	b, err := json.Marshal(all)
	if err == nil {
		err = q.write(q.path(t), b)
	}
	if err != nil {
		return fmt.Errorf("the question cannot be kept: %w", pathless(err))
	}
	if q.asks.Add(1)%questionsAtATime == 1 {
		return q.sweep(time.Now())
	}
	return nil
}

// write writes a file atomically, and syncs it.
func (q *questions) write(path string, b []byte) (err error) {
	if err := os.MkdirAll(q.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(q.dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// sweep removes what is old, and the oldest when there is too much.
func (q *questions) sweep(now time.Time) error {
	entries, err := os.ReadDir(q.dir)
	if err != nil {
		return err
	}
	var all []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for i, info := range all {
		if now.Sub(info.ModTime()) < questionAge && len(all)-i <= maxQuestions {
			break
		}
		if err := os.Remove(filepath.Join(q.dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
