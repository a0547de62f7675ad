package a2a

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
)

// maxPushed bounds the files of an artifact that is pushed, in bytes. A client gets larger ones with the task.
const maxPushed = 1 << 20

// notice is an event that is pushed. It follows from the log, and so is the same whoever pushes it, and whenever.
type notice struct {
	at    spot
	event a2a.Event
	last  bool // of a task that is over
}

// notices returns what is pushed of a task from a spot on: each change of its state, and its artifacts before its end. After an error there is more, which
// cannot be read now.
func (s *Server) notices(ctx context.Context, c *caller, r *record, from spot) ([]notice, error) {
	var all []notice
	add := func(at spot, e a2a.Event, last bool) {
		if !at.before(from) {
			all = append(all, notice{at, e, last})
		}
	}
	for i, to := range r.changes {
		if to.version < from.Version || to.state == a2a.TaskStateSubmitted {
			continue
		}
		at := spot{Version: to.version}
		over := i == len(r.changes)-1 && to.state.Terminal()
		if over {
			artifacts, err := s.artifacts(ctx, c, r, &room{maxPushed, maxPushed})
			if err != nil {
				return all, err
			}
			for _, a := range artifacts {
				add(at, &a2a.TaskArtifactUpdateEvent{TaskID: r.id, ContextID: r.context(), Artifact: a, LastChunk: true}, false)
				at.Part++
			}
		}
		add(at, &a2a.TaskStatusUpdateEvent{TaskID: r.id, ContextID: r.context(), Status: r.status(to)}, over)
	}
	return all, nil
}

// id returns what is the same whenever this notice is sent to a config of a task, and never of another.
func (n *notice) id(task a2a.TaskID, config string) string {
	return hex.EncodeToString(digest(16, "push", string(task), config, strconv.FormatUint(uint64(n.at.Version), 10), strconv.Itoa(n.at.Part)))
}

// body returns what is posted to a config; nil when it gets nothing of this notice. Clients of A2A 0.3 get the task, when its state has changed.
func (s *Server) body(ctx context.Context, c *caller, r *record, n *notice, old bool) ([]byte, error) {
	if !old {
		return json.Marshal(a2a.StreamResponse{Event: n.event})
	}
	e, ok := n.event.(*a2a.TaskStatusUpdateEvent)
	if !ok {
		return nil, nil
	}
	t := &a2a.Task{ID: r.id, ContextID: r.context(), Status: e.Status}
	if n.last {
		var err error
		if t.Artifacts, err = s.artifacts(ctx, c, r, &room{maxPushed, maxPushed}); err != nil {
			return nil, fmt.Errorf("artifacts: %w", err)
		}
	}
	return json.Marshal(a2av0.FromV1Task(t))
}
