package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/bridge/kit"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Bounds of a task.
const (
	maxHistory = 100      // messages
	maxSaid    = 4 << 20  // bytes of the texts of a history: its oldest messages give way
	maxFiles   = 32 << 20 // bytes of all files of an answer
)

// freeSaid is the size of a history that needs no room, in bytes.
const freeSaid = 64 << 10

// answerArtifact is the artifact with Cortex's answer.
const answerArtifact a2a.ArtifactID = "answer"

var (
	errMuchAnswered = errors.New("too many files are being answered")
	errMuch         = exhausted("too many answers are being read: ask again when some of them have been")
)

// view is how much of a task is shown.
type view struct {
	history   *int // nil: all, up to maxHistory
	artifacts bool
	questions bool  // as data, for the extension
	room      *room // for the files of all tasks that are shown together; nil: maxFiles for each
}

// check returns an error for a view that nobody can have.
func (v *view) check() error {
	if v.history != nil && *v.history < 0 {
		return invalid("historyLength is %d: it is at least 0", *v.history)
	}
	return nil
}

// show returns a task as its client sees it.
func (s *Server) show(ctx context.Context, c *caller, r *record, v view) *a2a.Task {
	t := &a2a.Task{ID: r.id, ContextID: r.context(), Status: r.status(r.now())}
	v.put(c, r, &t.Status)
	if v.artifacts {
		t.Artifacts, _ = s.artifacts(ctx, c, r, v.room) // it says of a file that it cannot be read now
	}
	n := maxHistory
	if v.history != nil {
		n = min(*v.history, maxHistory)
	}
	all := r.history()
	t.History = s.newest(ctx, c, all[max(0, len(all)-n):])
	return t
}

// newest returns the last messages of a history, as many as there is room for.
func (s *Server) newest(ctx context.Context, c *caller, all []*a2a.Message) []*a2a.Message {
	size, first := int64(0), len(all)
	for ; first > 0; first-- {
		n := partsSize(all[first-1].Parts)
		if size+n > maxSaid {
			break
		}
		size += n
	}
	if c.held != nil && size > freeSaid && !s.take(ctx, c, size) {
		return nil
	}
	return all[first:]
}

// partsSize returns what the texts and the data of parts take in an answer, in bytes. Files have room of their own.
func partsSize(parts a2a.ContentParts) (n int64) {
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch is := p.Content.(type) {
		case a2a.Text:
			n += int64(len(is))
		case a2a.Data:
			b, _ := json.Marshal(is.Value) // it was read as JSON
			n += int64(len(b))
		}
	}
	return n
}

// status returns the status of a task after a change.
func (r *record) status(at change) a2a.TaskStatus {
	s := a2a.TaskStatus{State: at.state}
	if !at.at.IsZero() {
		s.Timestamp = new(at.at.UTC())
	}
	for _, x := range r.exchanges {
		if at.state == a2a.TaskStateWorking || x.answer == nil || !x.answered.Equal(at.at) {
			continue
		}
		if text := transport.Text(x.answer.Parts); text != "" {
			s.Message = r.says(x.answer.ID, text)
		}
	}
	return s
}

// put adds to a status that wants input what is asked, for a client that wants it as data. The status is that of r now.
func (v *view) put(c *caller, r *record, s *a2a.TaskStatus) {
	if v.questions && s.State == a2a.TaskStateInputRequired && s.Message != nil {
		r.ask(s.Message, c.agent != "")
	}
}

// says returns a message of Cortex about the task.
func (r *record) says(id, text string) *a2a.Message {
	return &a2a.Message{ID: id, Role: a2a.MessageRoleAgent, TaskID: r.id, ContextID: r.context(), Parts: a2a.ContentParts{a2a.NewTextPart(text)}}
}

// history returns what the client has said, and what was asked, in order.
func (r *record) history() []*a2a.Message {
	var all []*a2a.Message
	for _, x := range r.exchanges {
		said := x.said
		if len(said.Parts) == 0 { // nobody has read it yet
			continue
		}
		meta, _ := said.Metadata[metaMetadata].(map[string]any)
		m := &a2a.Message{
			ID: transport.MetaString(said, metaMessage), Role: a2a.MessageRoleUser, TaskID: r.id, ContextID: r.context(), Metadata: meta, Parts: a2a.ContentParts{},
		}
		m.ID = cmp.Or(m.ID, x.id)
		if meta[HumanInTheLoop] != nil {
			m.Extensions = []string{HumanInTheLoop}
		}
		for _, p := range said.Parts {
			m.Parts = append(m.Parts, mention(p))
		}
		all = append(all, m)
		if x.asked {
			all = append(all, r.says(x.answer.ID, transport.Text(x.answer.Parts)))
		}
	}
	return all
}

// mention returns a part as the history shows it: of a file that the transport stores, only the description.
func mention(p *a2a.Part) *a2a.Part {
	if !transport.IsFileRef(p) {
		return p
	}
	return a2a.NewTextPart("[" + transport.FileLine(p) + "]")
}

// artifacts returns the outputs of a task that is completed: the agent's own, if one was named, and the answer. Of files for which there is no room,
// only a line is there; nil is room for maxFiles. After an error this is so for a file that cannot be read now.
func (s *Server) artifacts(ctx context.Context, c *caller, r *record, files *room) (all []*a2a.Artifact, err error) {
	last := r.last()
	if r.state() != a2a.TaskStateCompleted || last.answer == nil {
		return nil, nil
	}
	files = cmp.Or(files, &room{maxFiles, maxFiles})
	if c.agent != "" {
		for _, of := range last.artifacts {
			if of == nil || of.ID == "" || len(of.Parts) == 0 {
				continue
			}
			own := &a2a.Artifact{ID: of.ID, Name: of.Name, Description: of.Description, Metadata: of.Metadata}
			var unread error
			own.Parts, unread = s.whole(ctx, c, of.Parts, files)
			err = errors.Join(err, unread)
			all = append(all, own)
		}
	}
	if slices.ContainsFunc(all, func(a *a2a.Artifact) bool { return a.ID == answerArtifact }) {
		return all, err
	}
	said := last.answer.Parts
	if len(all) > 0 { // they have its files
		said = slices.DeleteFunc(slices.Clone(said), func(p *a2a.Part) bool {
			_, _, _, is := transport.FileOf(p)
			return is
		})
	}
	parts, unread := s.whole(ctx, c, said, files)
	if len(parts) > 0 {
		all = append(all, &a2a.Artifact{ID: answerArtifact, Name: "Answer", Parts: parts})
	}
	return all, errors.Join(err, unread)
}

// room is how many bytes of files there may be in an answer, and may still be.
type room struct{ most, left int64 }

// whole returns parts with the bytes of their files, as far as there is room, and without what is Cortex's own. After an error a file cannot be read now.
func (s *Server) whole(ctx context.Context, c *caller, parts a2a.ContentParts, files *room) (out a2a.ContentParts, unread error) {
	out = a2a.ContentParts{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		if text, ok := p.Content.(a2a.Text); ok && text == "" {
			continue
		}
		name, kind, size, is := transport.FileOf(p)
		if !is {
			out = append(out, p)
			continue
		}
		stored, _ := c.Transport.(transport.Files)
		var b []byte
		var err error
		switch {
		case size < 0 || size > files.left:
			err = transport.ErrTooLarge
		case c.held != nil && !s.take(ctx, c, size):
			err = errMuchAnswered
		default:
			if b, err = transport.ReadPart(ctx, stored, c.Tenant, p, files.left); err != nil && c.held != nil {
				s.giveBack(c, size)
			}
		}
		if err != nil {
			why := "it cannot be read now"
			switch {
			case errors.Is(err, transport.ErrTooLarge):
				why = fmt.Sprintf("it is too large to be sent here: %s at most with all others", transport.SizeText(files.most))
			case errors.Is(err, errMuchAnswered):
				why = "too much is being answered: get the task again"
			case errors.Is(err, transport.ErrFileGone):
				why = "it is gone"
			default:
				unread = err
			}
			out = append(out, a2a.NewTextPart("["+transport.FileLine(p)+": "+why+"]"))
			continue
		}
		files.left -= size
		out = append(out, &a2a.Part{Content: a2a.Raw(b), Filename: transport.FileName(name, kind, len(out)+1), MediaType: kind})
	}
	return out, unread
}

// GetTask implements a2asrv.RequestHandler.
func (s *Server) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	v := view{history: req.HistoryLength, artifacts: true, questions: isActive(ctx)}
	if err := v.check(); err != nil {
		return nil, err
	}
	r, err := s.find(ctx, c, req.ID)
	if err != nil {
		return nil, err
	}
	return s.show(ctx, c, r, v), nil
}

// cancelTime bounds how long CancelTask waits for the end of the task.
const cancelTime = 5 * time.Second

// CancelTask implements a2asrv.RequestHandler. Agents that work for the task are told to stop.
func (s *Server) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.find(ctx, c, req.ID)
	if err != nil {
		return nil, err
	}
	if r.state().Terminal() {
		return nil, a2a.NewError(a2a.ErrTaskNotCancelable, fmt.Sprintf("the task is over: it is %s", kit.StateName(r.state())))
	}
	var what []transport.Cancel
	for _, x := range r.exchanges {
		if x.answer == nil {
			what = append(what, transport.Cancel{Turn: x.turn, Reason: "by the user"})
		}
	}
	for _, q := range r.waiting {
		what = append(what, transport.Cancel{TaskID: q.task, Reason: "by the user"})
	}
	for _, x := range what {
		if err := c.Cancel(ctx, r.place, x); err != nil {
			return nil, s.unsent(err)
		}
	}
	limit, end := context.WithTimeout(ctx, cancelTime)
	defer end()
	for pause := pollFirst; !r.state().Terminal() && rest.For(limit, pause) == nil; pause = min(2*pause, pollMost) {
		next, err := s.find(ctx, c, req.ID)
		if err != nil {
			return nil, err
		}
		r = next
	}
	return s.show(ctx, c, r, view{artifacts: true}), nil
}

// GetExtendedAgentCard implements a2asrv.RequestHandler.
func (s *Server) GetExtendedAgentCard(ctx context.Context, _ *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	c, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if c.held != nil && !s.take(ctx, c, maxShown) {
		return nil, errMuch
	}
	card, err := s.card(ctx, c.agent, baseOf(ctx), true)
	if err == nil && c.held != nil {
		s.giveBack(c, max(0, maxShown-int64(sizeOf(card.Skills))))
	}
	return card, err
}

func invalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// quoted returns a stranger's word for an error.
func quoted(s string) string {
	return fmt.Sprintf("%q", prompt.Clean(shorten.Marked(s, 200, "…"), 200))
}
