// Package policyfile has the rules of a file in force, and again when it changes.
package policyfile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/llm"
)

// File is a file of rules, which is read again when it changes. While it is invalid, the previous rules stay in force. A nil File has no rules.
type File struct {
	path  string
	log   *slog.Logger
	tell  func(line string) // to the user of a chat; nil without one
	rules atomic.Pointer[policy.Policy]
	judge bool // a language model decides, which can judge results

	// The state of the file at the last look.
	stamp   stamp
	sum     [sha256.Size]byte // of the content that is in force, or was refused
	next    [sha256.Size]byte // of new content, which takes effect if it is the same at the next look
	trouble string            // the last reported error of reading it
	bad     string            // why the content that was read last is refused; "": it is in force

	said atomic.Pointer[string] // of both, for others
}

// stamp changes when a file does, except for changes within one tick of the file system's clock.
type stamp struct {
	modified time.Time
	size     int64
	fresh    bool // the file may change within the same tick
}

// freshFor is longer than a tick of any file system's clock.
const freshFor = 3 * time.Second

// Open reads the file at path.
func Open(path string, log *slog.Logger, tell func(line string)) (*File, error) {
	f := &File{path: path, log: log, tell: tell}
	b, seen, err := f.read()
	if err != nil {
		return nil, err
	}
	p, err := policy.Parse(f.path, b)
	if err != nil {
		return nil, err
	}
	f.stamp, f.sum = seen, sha256.Sum256(b)
	f.rules.Store(p)
	return f, nil
}

// JudgedBy remembers what decides, and returns an error when an evaluator needs a language model that is not there.
func (f *File) JudgedBy(d llm.Decider) error {
	if f == nil {
		return nil
	}
	_, f.judge = d.(llm.Judge)
	return f.lacks(f.rules.Load())
}

// lacks returns an error when an evaluator of p needs a language model that is not there.
func (f *File) lacks(p *policy.Policy) error {
	if name := p.Judged(); name != "" && !f.judge {
		return fmt.Errorf("%s: the evaluator %s needs a language model: give one with --llm, or give the evaluator rules", f.path, name)
	}
	return nil
}

// InForce returns the function for cortex.Config; nil without a file.
func (f *File) InForce() func() *policy.Policy {
	if f == nil {
		return nil
	}
	return f.rules.Load
}

// Watch looks at the file once a second until ctx ends.
func (f *File) Watch(ctx context.Context) {
	if f == nil {
		return
	}
	for rest.For(ctx, time.Second) == nil {
		f.look()
	}
}

// Trouble returns a line while the file does not say what is in force.
func (f *File) Trouble() []string {
	if f == nil {
		return nil
	}
	if why := f.said.Load(); why != nil {
		return []string{"policy not read: the rules from before stay in force: " + *why}
	}
	return nil
}

// look applies new rules. It applies them when two looks find the same content, so that it does not read a file that is being written.
func (f *File) look() {
	defer func() {
		var said *string
		if why := cmp.Or(f.trouble, f.bad); why != "" {
			said = &why
		}
		f.said.Store(said)
	}()
	info, err := os.Stat(f.path)
	if err != nil {
		f.keep(err)
		return
	}
	if !f.stamp.fresh && f.stamp.modified.Equal(info.ModTime()) && f.stamp.size == info.Size() && f.trouble == "" {
		return
	}
	b, seen, err := f.read()
	if err != nil {
		f.keep(err)
		return
	}
	f.trouble = ""
	switch sum := sha256.Sum256(b); sum {
	case f.sum:
		f.stamp, f.next = seen, sum
	case f.next:
		f.stamp, f.sum = seen, sum
		p, err := policy.Parse(f.path, b)
		if err == nil {
			err = f.lacks(p)
		}
		if err != nil {
			f.bad = err.Error()
			f.refuse(err)
			return
		}
		f.bad = ""
		f.rules.Store(p)
		f.log.Info("new policy", "file", f.path, "rules", p.Rules())
		f.say(fmt.Sprintf("the rules in %s are new: %d in force now", f.path, p.Rules()))
	default:
		f.next = sum
	}
}

// read returns the content of the file.
func (f *File) read() ([]byte, stamp, error) {
	b, info, err := document.ReadRegular(f.path, policy.MaxBytes)
	if err != nil {
		return nil, stamp{}, err
	}
	return b, stamp{info.ModTime(), info.Size(), time.Since(info.ModTime()) < freshFor}, nil
}

// keep reports, once, why the file cannot be read.
func (f *File) keep(err error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is gone", f.path)
	}
	if f.trouble != err.Error() {
		f.trouble = err.Error()
		f.refuse(err)
	}
}

func (f *File) refuse(err error) {
	f.log.Warn("policy not read: the rules from before stay in force", "file", f.path, "err", err)
	f.say(fmt.Sprintf("--policy: %v: the rules from before stay in force", err))
}

func (f *File) say(line string) {
	if f.tell != nil {
		f.tell(line)
	}
}
