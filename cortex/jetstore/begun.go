package jetstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
)

// begun is where the streams ended when a Store was opened. An outline is put after the entry that it names: if one was there already and names a later
// entry than the log had, the log has lost its end, such as to older files of it. That is seen only here: what comes next gets the same sequences.
type begun struct {
	log, notes uint64
	lacks      atomic.Pointer[string] // a line about it; nil when nothing is
}

// begin notes where the streams end. The notes come first: an outline that another process puts meanwhile is not there already.
func (s *Store) begin(ctx context.Context) error {
	notes, err := s.js.Stream(ctx, notesStream)
	if err != nil {
		return err
	}
	log, err := s.stream.Info(ctx)
	if err != nil {
		return err
	}
	s.begun.notes, s.begun.log = notes.CachedInfo().State.LastSeq, log.State.LastSeq
	return nil
}

// outlived looks whether the outline of a conversation, of this revision, is of an entry that the log has lost, and logs the first one.
func (s *Store) outlived(contextID string, revision, version conversation.Version) {
	if !s.seals || s.replicated || uint64(version) <= s.begun.log || uint64(revision) > s.begun.notes {
		return
	}
	line := fmt.Sprintf("lost: the log ended at entry %d when it was opened, and %d was there before: files of an earlier time were put back, or its end is lost", s.begun.log, version)
	if s.begun.lacks.CompareAndSwap(nil, &line) {
		s.log.Error("the log of conversations has lost its end: entries are known that it does not have", "context_id", contextID, "entry", version, "ends", s.begun.log,
			"do", "see whether files of an earlier time were put back")
	}
}

// LostEnd returns a line when the log had lost its end before the Store was opened, as far as it was noticed; "" else.
func (s *Store) LostEnd() string {
	if line := s.begun.lacks.Load(); line != nil {
		return *line
	}
	return ""
}
