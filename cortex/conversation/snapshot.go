package conversation

import (
	"encoding/json"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// snapshotForm changes with the fold, so that a snapshot of another build is not mistaken for one of this build.
const snapshotForm = 11

type snapshotFile struct {
	Form         int           `json:"form"`
	Conversation *Conversation `json:"conversation"`
}

// Snapshot returns c as JSON, for [ReadSnapshot].
func (c *Conversation) Snapshot() ([]byte, error) {
	return json.Marshal(snapshotFile{snapshotForm, c})
}

// ReadSnapshot reads a snapshot. On an error the caller folds the log instead, which has everything.
func ReadSnapshot(b []byte) (*Conversation, error) {
	var s snapshotFile
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if s.Form != snapshotForm || s.Conversation == nil {
		return nil, fmt.Errorf("snapshot of form %d, want %d", s.Form, snapshotForm)
	}
	c := s.Conversation
	if c.Tasks == nil {
		c.Tasks = map[a2a.TaskID]*Task{}
	}
	c.weighRoster()
	c.seen = make(map[string]uint64, len(c.Seen))
	for _, e := range c.Seen {
		c.seen[e.ID] = e.Seq
		c.seenBytes += len(e.ID)
	}
	return c, nil
}
