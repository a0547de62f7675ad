package a2a

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Bounds of ListTasks.
const (
	defaultPage = 50
	mostPage    = 100
	maxPage     = 4 << 20 // bytes of the texts of its tasks, with which a page ends
	mostAgain   = 2       // conversations that are read once more for a page, which ends with the next one
	mostRead    = 4       // conversations whose tasks a list has at a time
	mostListed  = 16384   // tasks whose changes are remembered, so that an unchanged conversation is not read again
)

// listed is what a list needs of the tasks of a conversation, at a version of it.
type listed struct {
	version conversation.Version
	tasks   []listedTask
}

type listedTask struct {
	id      a2a.TaskID
	context string // as the client knows it
	changes []change
}

// asOf returns the last change that was made by then; false if the task did not exist.
func (t *listedTask) asOf(then time.Time) (change, bool) {
	for _, at := range slices.Backward(t.changes) {
		if !at.at.After(then) {
			return at, true
		}
	}
	return change{}, false
}

// cursor is where a list goes on. The order is that of the time at which the list began, so that no task is left out or comes twice when tasks change.
type cursor struct {
	Then time.Time  `json:"t"`
	At   time.Time  `json:"a"`
	ID   a2a.TaskID `json:"i"`
}

func (c cursor) String() string {
	b, _ := json.Marshal(c) // it always can be
	return base64.RawURLEncoding.EncodeToString(b)
}

func readCursor(token string) (cursor, error) {
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.Then.IsZero() || c.ID == "" {
		return c, invalid("pageToken: %s is none of a list: give the nextPageToken of the page before", quoted(token))
	}
	return c, nil
}

// place is the place of a task in a list.
type place struct {
	*listedTask
	in   string // the conversation
	then change
}

func (p *place) compare(at time.Time, id a2a.TaskID) int {
	return cmp.Or(at.Compare(p.then.at), strings.Compare(string(p.id), string(id)))
}

// ListTasks implements a2asrv.RequestHandler.
func (s *Server) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.PageSize, defaultPage)
	v := view{req.HistoryLength, req.IncludeArtifacts, isActive(ctx), &room{maxFiles, maxFiles}}
	after := cursor{Then: c.Clock()}
	switch {
	case size < 1 || size > mostPage:
		return nil, invalid("pageSize is %d: it is from 1 to %d", req.PageSize, mostPage)
	case !isState(req.Status):
		return nil, invalid("status: %s is no state", quoted(string(req.Status)))
	case req.PageToken != "":
		if after, err = readCursor(req.PageToken); err != nil {
			return nil, err
		}
	}
	if err := v.check(); err != nil {
		return nil, err
	}
	if c.held != nil && !s.take(ctx, c, maxPage) {
		return nil, errMuch
	}
	all, err := s.list(ctx, c, req.ContextID)
	if err != nil {
		return nil, err
	}
	var found []*place
	for _, p := range all {
		then, ok := p.asOf(after.Then)
		now := p.changes[len(p.changes)-1]
		if !ok || req.Status != "" && now.state != req.Status || req.StatusTimestampAfter != nil && !now.at.After(*req.StatusTimestampAfter) {
			continue
		}
		p.then = then
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b *place) int { return a.compare(b.then.at, b.id) })
	out := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, TotalSize: len(found), PageSize: size}
	var last *place
	var texts int64
	read, again := map[string][]*record{}, 0
	for i, p := range found {
		if after.ID != "" && p.compare(after.At, after.ID) <= 0 {
			continue
		}
		if len(out.Tasks) == size || texts >= maxPage {
			out.NextPageToken = cursor{after.Then, last.then.at, last.id}.String()
			break
		}
		if read[p.in] == nil {
			if len(read) == mostRead {
				clear(read)
			}
			if read[p.in], err = s.read(ctx, c, p.in, ""); err != nil {
				return nil, err
			}
		}
		r := of(read[p.in], p.id)
		if r != nil && r.brief {
			if again == mostAgain && last != nil {
				out.NextPageToken = cursor{after.Then, last.then.at, last.id}.String()
				break
			}
			again++
			if read[p.in], err = s.readWhole(ctx, c, p.in, next(found[i:], size-len(out.Tasks))...); err != nil {
				return nil, err
			}
			if r = of(read[p.in], p.id); r != nil && r.brief { // it ended before the others
				if read[p.in], err = s.readWhole(ctx, c, p.in, p.id); err != nil {
					return nil, err
				}
				r = of(read[p.in], p.id)
			}
		}
		if r == nil {
			continue // it was deleted just now
		}
		t := s.show(ctx, c, r, v)
		texts += textsOf(t)
		last, out.Tasks = p, append(out.Tasks, t)
	}
	return out, nil
}

// of returns the record of a task, or nil.
func of(records []*record, id a2a.TaskID) *record {
	i := slices.IndexFunc(records, func(r *record) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return records[i]
}

// next returns the tasks of the first one's conversation among the next n.
func next(found []*place, n int) (ids []a2a.TaskID) {
	for _, p := range found[:min(n, len(found))] {
		if p.in == found[0].in {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// textsOf returns what the texts of a task take, in bytes.
func textsOf(t *a2a.Task) (n int64) {
	if t.Status.Message != nil {
		n = partsSize(t.Status.Message.Parts)
	}
	for _, m := range t.History {
		n += partsSize(m.Parts)
	}
	for _, of := range t.Artifacts {
		n += partsSize(of.Parts)
	}
	return n
}

// list returns the tasks of the caller, of one context or of all.
func (s *Server) list(ctx context.Context, c *caller, contextID string) ([]*place, error) {
	var all []*place
	add := func(in string, tasks []listedTask) {
		for i := range tasks {
			all = append(all, &place{listedTask: &tasks[i], in: in})
		}
	}
	if contextID != "" {
		spot, _ := c.placeOf(contextID)
		in := c.at(spot)
		records, err := s.read(ctx, c, in, "")
		if err != nil {
			return nil, err
		}
		tasks := listedOf(records)
		add(in, slices.DeleteFunc(tasks, func(t listedTask) bool { return t.context != contextID }))
		return all, nil
	}
	for info, err := range s.cfg.Store.Contexts(ctx, c.Tenant) {
		if err != nil {
			return nil, s.away(err)
		}
		if _, own := c.placeOf(info.ContextID); !own {
			continue
		}
		tasks, err := s.listedIn(ctx, c, &info)
		if err != nil {
			return nil, err
		}
		add(info.ContextID, tasks)
	}
	return all, nil
}

// listedIn returns the tasks of a conversation, which is read if it has changed.
func (s *Server) listedIn(ctx context.Context, c *caller, info *storage.ContextInfo) ([]listedTask, error) {
	key := c.user() + " " + info.ContextID
	s.mu.Lock()
	of, ok := s.lists.Get(key)
	s.mu.Unlock()
	if ok && of.version == info.Version {
		return of.tasks, nil
	}
	records, err := s.read(ctx, c, info.ContextID, "")
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, nil // one conversation that cannot be read hides no other
	}
	of = listed{info.Version, listedOf(records)}
	if len(records) == 0 || records[0].version < info.Version { // a replica that is behind has answered
		return of.tasks, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists.Put(key, of, len(of.tasks)+1)
	for s.lists.Size() > mostListed {
		s.lists.Drop()
	}
	return of.tasks, nil
}

func listedOf(records []*record) []listedTask {
	tasks := make([]listedTask, 0, len(records))
	for _, r := range records {
		tasks = append(tasks, listedTask{r.id, r.context(), r.changes})
	}
	return tasks
}

// isState reports whether s is a state, or none.
func isState(s a2a.TaskState) bool {
	switch s {
	case a2a.TaskStateUnspecified, a2a.TaskStateAuthRequired, a2a.TaskStateCanceled, a2a.TaskStateCompleted, a2a.TaskStateFailed,
		a2a.TaskStateInputRequired, a2a.TaskStateRejected, a2a.TaskStateSubmitted, a2a.TaskStateWorking:
		return true
	}
	return false
}
