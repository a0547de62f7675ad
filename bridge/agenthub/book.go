package agenthub

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/cortex-orchestrator/cortex/bridge/agenthub/hubpb"
	"github.com/cortex-orchestrator/cortex/internal/locks"
	"github.com/cortex-orchestrator/cortex/internal/protoweight"
	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Bounds of the book.
const (
	maxTasks     = 10_000
	maxBook      = 128 << 20 // bytes that all tasks take, as far as that can be estimated
	maxTask      = 3 << 20   // bytes of a task, so that it fits into an answer
	maxTaskHeavy = 16 << 20  // bytes that it takes
	maxHistory   = 256       // messages of a task
	maxListed    = 1000      // tasks of a page
	maxListSize  = 3 << 20   // bytes of a page
)

// book has the tasks that peers know of, as they see them: those of Cortex, and those that they give each other. It forgets the task that was used
// longest ago. It is safe for concurrent use.
type book struct {
	changing locks.Locks[string] // of tasks, by id

	mu  sync.Mutex
	of  recent.Cache[string, *page]
	seq int64
}

// page is a task in the book. The task is not changed: it is replaced.
type page struct {
	seq  int64 // pages are listed by it, the newest first
	task *hubpb.Task
}

// errUnknown is that of a task that is not in the book.
var errUnknown = status.Error(codes.NotFound, "task not found")

// change replaces a task by what f makes of a copy; of an empty task when it is not in the book. The copy has lists of its own, and what is in them is that of
// the old task, which f replaces and does not change. Large tasks are weighed while the book is nobody's, so that only those wait who change the same one.
func (b *book) change(id string, f func(*hubpb.Task) error) (*hubpb.Task, error) {
	free, err := b.changing.Lock(context.Background(), id) // changes do not wait for anything
	if err != nil {
		return nil, err
	}
	defer free()
	b.mu.Lock()
	old, known := b.of.Get(id)
	b.mu.Unlock()
	t := &hubpb.Task{Id: id}
	if known {
		t = copyOf(old.task)
	}
	if err := f(t); err != nil {
		return nil, err
	}
	if n := len(t.History); n > maxHistory { // the first message is what an agent works on
		t.History = append(t.History[:1:1], t.History[n-maxHistory+1:]...)
	}
	weight := protoweight.OfMessage(t)
	switch {
	case proto.Size(t) > maxTask:
		return nil, status.Error(codes.ResourceExhausted, fmt.Sprintf("the task has more than %d MiB", maxTask>>20))
	case weight > maxTaskHeavy:
		return nil, status.Error(codes.ResourceExhausted, "the task has too many values")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !known {
		b.seq++
		old = &page{seq: b.seq}
	}
	b.of.Put(id, &page{old.seq, t}, weight)
	for b.of.Len() > maxTasks || b.of.Size() > maxBook {
		b.of.Drop()
	}
	return t, nil
}

// copyOf returns a copy of a task with lists of its own.
func copyOf(t *hubpb.Task) *hubpb.Task {
	return &hubpb.Task{
		Id: t.Id, ContextId: t.ContextId, Status: t.Status, Metadata: t.Metadata, Artifacts: slices.Clone(t.Artifacts), History: slices.Clone(t.History),
	}
}

// put adds or replaces a task.
func (b *book) put(t *hubpb.Task) error {
	_, err := b.change(t.Id, func(is *hubpb.Task) error {
		proto.Reset(is)
		proto.Merge(is, t)
		return nil
	})
	return err
}

// message adds a message to the history of its task, and returns the task.
func (b *book) message(m *hubpb.Message, now time.Time) (*hubpb.Task, error) {
	return b.change(m.TaskId, func(t *hubpb.Task) error {
		if t.Status == nil {
			t.ContextId, t.Metadata = m.ContextId, m.Metadata
			t.Status = &hubpb.TaskStatus{State: hubpb.TaskState_TASK_STATE_SUBMITTED, Timestamp: timestamppb.New(now)}
		} else {
			t.Status = &hubpb.TaskStatus{State: t.Status.State, Update: m, Timestamp: t.Status.Timestamp}
		}
		t.History = append(t.History, m)
		return nil
	})
}

// status gives a task a status.
func (b *book) status(u *hubpb.TaskStatusUpdateEvent) error {
	_, err := b.change(u.TaskId, func(t *hubpb.Task) error {
		begin(t, u.ContextId)
		t.Status = u.Status
		if t.Status == nil {
			t.Status = &hubpb.TaskStatus{}
		}
		return nil
	})
	return err
}

// artifact adds an artifact to a task, or parts to an artifact.
func (b *book) artifact(u *hubpb.TaskArtifactUpdateEvent) error {
	_, err := b.change(u.TaskId, func(t *hubpb.Task) error {
		begin(t, u.ContextId)
		at := slices.IndexFunc(t.Artifacts, func(a *hubpb.Artifact) bool { return a.ArtifactId == u.Artifact.ArtifactId })
		switch {
		case at < 0:
			t.Artifacts = append(t.Artifacts, u.Artifact)
		case u.Append:
			is := t.Artifacts[at]
			t.Artifacts[at] = &hubpb.Artifact{
				ArtifactId: is.ArtifactId, Name: is.Name, Description: is.Description, Parts: slices.Concat(is.Parts, u.Artifact.Parts), Metadata: is.Metadata, Extensions: is.Extensions,
			}
		default:
			t.Artifacts[at] = u.Artifact
		}
		return nil
	})
	return err
}

// begin fills in a task that was not in the book.
func begin(t *hubpb.Task, contextID string) {
	if t.Status == nil {
		t.ContextId, t.Status = contextID, &hubpb.TaskStatus{}
	}
}

// cancel cancels a task.
func (b *book) cancel(id, reason string, now time.Time) (*hubpb.Task, error) {
	return b.change(id, func(t *hubpb.Task) error {
		switch {
		case t.Status == nil:
			return errUnknown
		case slices.Contains(ended, t.Status.State):
			return status.Error(codes.FailedPrecondition, "task cannot be cancelled in current state")
		}
		t.Status = cancelled(t, reason, now)
		return nil
	})
}

// ended are the states in which the real hub refuses to cancel a task.
var ended = []hubpb.TaskState{hubpb.TaskState_TASK_STATE_COMPLETED, hubpb.TaskState_TASK_STATE_FAILED, hubpb.TaskState_TASK_STATE_CANCELLED}

// get returns a task with the newest messages of its history; all if history is not positive.
func (b *book) get(id string, history int32) (*hubpb.Task, error) {
	b.mu.Lock()
	p, ok := b.of.Get(id)
	b.mu.Unlock()
	if !ok {
		return nil, errUnknown
	}
	n := len(p.task.History)
	if history <= 0 || int(history) >= n {
		return p.task, nil
	}
	t := copyOf(p.task)
	t.History = t.History[n-int(history):]
	return t, nil
}

// list returns the tasks that a peer asks for, the newest first, and the token for the rest.
func (b *book) list(r *hubpb.ListTasksRequest) (all []*hubpb.Task, next string, err error) {
	before := int64(1 << 62)
	if r.PageToken != "" {
		if before, err = strconv.ParseInt(r.PageToken, 10, 64); err != nil {
			return nil, "", status.Error(codes.InvalidArgument, "page_token is none of this hub's")
		}
	}
	most := maxListed
	if r.PageSize > 0 {
		most = min(most, int(r.PageSize))
	}
	size := 0
	for _, p := range b.pages() {
		if p.seq >= before || !asked(r, p.task) {
			continue
		}
		if size += proto.Size(p.task); len(all) == most || len(all) > 0 && size > maxListSize {
			return all, next, nil
		}
		all, next = append(all, p.task), strconv.FormatInt(p.seq, 10)
	}
	return all, "", nil
}

// pages returns all pages, the newest first.
func (b *book) pages() []*page {
	b.mu.Lock()
	all := b.of.Values()
	b.mu.Unlock()
	slices.SortFunc(all, func(p, q *page) int { return int(q.seq - p.seq) })
	return all
}

// asked reports whether a peer asks for a task.
func asked(r *hubpb.ListTasksRequest, t *hubpb.Task) bool {
	return (r.ContextId == "" || r.ContextId == t.ContextId) &&
		(len(r.States) == 0 || slices.Contains(r.States, t.Status.GetState())) &&
		(r.AgentId == "" || slices.ContainsFunc(t.History, func(m *hubpb.Message) bool { return m.Role == hubpb.Role_ROLE_AGENT }))
}
