package view

import (
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/evaluate"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Turn is one turn of a conversation, as far as its log has it. All texts are those of users, agents and models, as they are.
type Turn struct {
	ID        string // see [transport.TurnID]
	MessageID string
	From      string
	Asked     time.Time // when the message was sent, by its sender's clock
	Began     time.Time // when Cortex began to handle it
	Text      string
	Files     []*a2a.Part
	Direct    string // the agent that the message names; "": none
	Steps     []*Step
	Tasks     []*TurnTask
	Answer    *Answer            // nil while the turn is open
	Waits     *conversation.Task // the task for which the answer asks the user something; nil: none
	Usage     llm.Usage
	Seqs      []uint64 // the entries of the turn in the log

	bytes int // its size, when it changed last
}

// Step is one decision of a turn.
type Step struct {
	Seq       uint64
	Began     time.Time // when its cause was handled
	Ended     time.Time
	Decision  *llm.Decision // nil: it failed
	Failure   string
	Consent   string // the question that asks for a yes before anything is sent
	Summary   string // how much of the conversation its prompt left out; "": nothing
	Shortlist []conversation.Shortlisted
	Usage     llm.Usage
}

// TurnTask is a task of a turn.
type TurnTask struct {
	Task
	Skill    string
	Input    []byte // JSON; nil: only the text
	Attempts []TurnAttempt
	Blocked  bool // it waits for others
	Held     bool // it waits for the user's yes
	Files    []*a2a.Part
	Verdicts []evaluate.Verdict // of the agent itself and of the policy
}

// TurnAttempt is an attempt at a task. The last one has no Why, and no end while it is under way.
type TurnAttempt struct {
	Agent     string
	Sent      time.Time
	Ended     time.Time
	Why       string // why it was given up
	Unfetched bool   // the agent never got it
}

// Answer is the answer of a turn.
type Answer struct {
	ID     string
	Time   time.Time
	Text   string
	Files  []*a2a.Part
	Kind   llm.Kind // empty for a failure
	Failed bool
	Reason string
	Model  string
}

// Open reports whether the turn has no answer yet.
func (t *Turn) Open() bool { return t.Answer == nil }

// State returns the state of the turn for people.
func (t *Turn) State() string {
	switch {
	case t.Open():
		return "running"
	case t.Answer.Failed:
		return "failed"
	case t.Waits != nil:
		return "waits for you"
	case t.Answer.Kind.Refuses():
		return "refused"
	}
	return "answered"
}

// Keep says what [Turns] keep of a conversation, which may be larger than any memory. Where it is 0, all is kept.
type Keep struct {
	Only  string // the id of the only turn
	Turns int    // those that began last
	Text  int    // the beginning of each text, in bytes, and of each file what it is, without its bytes
	All   int    // the turns that began last of which the texts and files have so many bytes together, and the last one
}

// Turns makes turns from the entries of a conversation's log, one after the other. It is not safe for concurrent use.
type Turns struct {
	Conversation *conversation.Conversation
	List         []*Turn // in the order they began
	Earlier      int     // turns that were dropped from the beginning of List

	keep Keep
	byID map[string]*Turn
	sum  int                  // the bytes of all in List
	at   map[uint64]time.Time // the times of entries
}

// NewTurns returns the turns of an empty log.
func NewTurns(tenant, contextID string, keep Keep) *Turns {
	return &Turns{
		Conversation: conversation.NewConversation(tenant, contextID), keep: keep, byID: make(map[string]*Turn), at: make(map[uint64]time.Time),
	}
}

// Add adds the next entry of the log, and returns the turns that it changed.
func (ts *Turns) Add(e *conversation.Entry) ([]*Turn, error) {
	conv := ts.Conversation
	if err := conv.Apply(e); err != nil {
		return nil, err
	}
	ts.at[e.Seq] = later(e.Time, e.Sent)
	if turn := conv.Turn(e.Turn); turn != nil && ts.byID[turn.ID] == nil && (ts.keep.Only == "" || ts.keep.Only == turn.ID) {
		ts.begin(turn, e)
	}
	var changed []*Turn
	for _, t := range ts.List {
		isOf := e.Turn == t.ID
		if !isOf && !t.Open() && t.Waits == nil {
			continue // before it is looked for, as most are such
		}
		turn := conv.Turn(t.ID)
		if turn == nil {
			continue
		}
		if isOf {
			t.Seqs = append(t.Seqs, e.Seq)
			ts.step(t, e)
		}
		if ts.refresh(t, turn, e) || isOf {
			changed = append(changed, t)
		}
		was := t.bytes
		t.bytes = t.size()
		ts.sum += t.bytes - was
	}
	ts.drop()
	return changed, nil
}

// Weight returns about how many bytes the turns take, with the conversation that they are of.
func (ts *Turns) Weight() int {
	return ts.Conversation.Weight() + 64*len(ts.at) + ts.sum
}

// drop drops the turns that are beyond what is kept, from the beginning.
func (ts *Turns) drop() {
	for len(ts.List) > 1 && (ts.keep.Turns > 0 && len(ts.List) > ts.keep.Turns || ts.keep.All > 0 && ts.sum > ts.keep.All) {
		t := ts.List[0]
		ts.sum -= t.bytes
		delete(ts.byID, t.ID)
		ts.List[0] = nil // or it is kept as long as the others
		ts.List = ts.List[1:]
		ts.Earlier++
	}
}

// size returns the bytes of the turn's texts and files.
func (t *Turn) size() int {
	n := len(t.Text) + filesSize(t.Files)
	if t.Answer != nil {
		n += len(t.Answer.Text) + len(t.Answer.Reason) + filesSize(t.Answer.Files)
	}
	for _, s := range t.Steps {
		n += len(s.Failure) + len(s.Consent)
		if s.Decision != nil {
			n += len(s.Decision.Say)
			for _, d := range s.Decision.Delegations {
				n += len(d.Task) + len(d.Input)
			}
		}
	}
	for _, task := range t.Tasks {
		n += len(task.Text) + len(task.Result) + len(task.Input) + filesSize(task.Files)
		for _, a := range task.Attempts {
			n += len(a.Why)
		}
		for i := range task.Verdicts {
			n += len(task.Verdicts[i].Evaluator) + len(task.Verdicts[i].Advice)
		}
	}
	return n
}

func filesSize(files []*a2a.Part) int {
	n := 0
	for _, p := range files {
		n += 512 + len(p.Raw()) + len(p.Filename)
	}
	return n
}

// files returns what is kept of files. Where texts are cut, that is what is shown of a file: its key, name, type and size, as a reference that leads nowhere.
func (ts *Turns) files(all []*a2a.Part) []*a2a.Part {
	all = slices.Clone(all)
	if ts.keep.Text == 0 {
		return all
	}
	for i, p := range all {
		name, kind, _, ok := transport.FileOf(p)
		if !ok {
			continue
		}
		all[i] = transport.ForgottenFile(p)
		if len(name) > transport.MaxFileName {
			all[i].Filename = transport.FileName(name, kind, i+1)
		}
		if at, ok := all[i].Content.(a2a.URL); ok && !transport.IsForgotten(p) {
			all[i].Content = at + "elsewhere"
		}
		all[i].SetMeta(transport.MetaFile, conversation.FileKey(p))
	}
	return all
}

// verdicts returns what is kept of verdicts.
func (ts *Turns) verdicts(all ...evaluate.Verdict) []evaluate.Verdict {
	all = slices.Clone(all)
	for i := range all {
		all[i].Evaluator, all[i].Advice = ts.text(all[i].Evaluator), ts.text(all[i].Advice)
	}
	return all
}

// text returns what is kept of a text, without the memory of the rest.
func (ts *Turns) text(s string) string {
	if ts.keep.Text == 0 || len(s) <= ts.keep.Text {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:ts.keep.Text], "")) + "…"
}

func (ts *Turns) bytes(b []byte) []byte {
	if ts.keep.Text == 0 || len(b) <= ts.keep.Text {
		return b
	}
	return []byte(ts.text(string(b)))
}

// decision returns what is kept of a decision.
func (ts *Turns) decision(d *llm.Decision) *llm.Decision {
	if d == nil || ts.keep.Text == 0 {
		return d
	}
	kept := *d
	kept.Say, kept.Delegations = ts.text(d.Say), slices.Clone(d.Delegations)
	for i := range kept.Delegations {
		one := &kept.Delegations[i]
		one.Task, one.Input = ts.text(one.Task), ts.bytes(one.Input)
	}
	return &kept
}

// Has reports whether List has a turn with this id.
func (ts *Turns) Has(id string) bool { return ts.byID[id] != nil }

func (ts *Turns) begin(turn *conversation.Turn, e *conversation.Entry) {
	t := &Turn{
		ID: turn.ID, MessageID: turn.Message, From: turn.From, Asked: e.Cause.Time, Began: turn.Began, Text: turn.User, Files: ts.files(turn.Files),
	}
	if turn.Direct != nil {
		t.Direct = turn.Direct.Agent
	}
	if m, ok := e.Cause.Payload.(*a2a.Message); ok {
		t.Text = transport.Text(m.Parts)
	}
	t.Text = ts.text(t.Text)
	ts.byID[t.ID] = t
	ts.List = append(ts.List, t)
}

// step records the decision of an entry.
func (ts *Turns) step(t *Turn, e *conversation.Entry) {
	if e.Decision == nil && e.Failure == "" {
		return
	}
	s := &Step{
		Seq: e.Seq, Began: e.Time, Ended: later(e.Time, e.Sent), Decision: ts.decision(e.Decision), Failure: e.Failure, Consent: e.Consent, Shortlist: e.Shortlist,
		Usage: e.Spent(),
	}
	if e.Summary != nil {
		s.Summary = SummaryLine(e)
	}
	t.Steps = append(t.Steps, s)
}

// refresh brings t up to date, and reports whether anything that is shown may have changed.
func (ts *Turns) refresh(t *Turn, turn *conversation.Turn, e *conversation.Entry) (changed bool) {
	conv := ts.Conversation
	t.Usage = turn.Usage
	for _, task := range conv.TasksOf(turn) {
		now := ts.task(task, e)
		i := 0
		for ; i < len(t.Tasks) && t.Tasks[i].TaskID != task.ID; i++ {
		}
		if i == len(t.Tasks) {
			t.Tasks = append(t.Tasks, now)
			changed = true
			continue
		}
		was := t.Tasks[i]
		if len(now.Verdicts) == 0 {
			now.Verdicts = was.Verdicts
		}
		changed = changed || was.State != now.State || len(was.Attempts) != len(now.Attempts) || was.Held != now.Held || !was.Deadline.Equal(now.Deadline)
		t.Tasks[i] = now
	}
	if waits := conv.WaitsFor(t.ID); (waits != nil) != (t.Waits != nil) {
		t.Waits, changed = waits, true
	}
	if m, ok := conv.AnswerOf(turn.From, turn.Message); ok && t.Answer == nil {
		t.Answer = &Answer{
			ID: m.ID, Time: later(turn.Answered, ts.at[turn.AnswerSeq]), Text: ts.text(transport.Text(m.Parts)), Files: ts.files(transport.FilesOf(m.Parts)), Kind: turn.Kind,
			Failed: turn.Failed, Reason: ts.text(turn.Reason), Model: turn.Model,
		}
		changed = true
	}
	return changed
}

func (ts *Turns) task(task *conversation.Task, e *conversation.Entry) *TurnTask {
	t := &TurnTask{
		Task: newTask(ts.Conversation.ContextID, task), Skill: task.Skill, Input: task.Input, Files: ts.files(task.Files),
		Blocked: task.Phase == conversation.Blocked, Held: task.Phase == conversation.Held,
	}
	t.Text, t.Result, t.Input = ts.text(t.Text), ts.text(t.Result), ts.bytes(t.Input)
	for _, a := range task.Tried {
		t.Attempts = append(t.Attempts, TurnAttempt{a.Agent, ts.at[a.SentSeq], ts.at[a.EndedSeq], ts.text(a.Why), a.Waited})
	}
	if !task.Sent.IsZero() {
		t.Attempts = append(t.Attempts, TurnAttempt{Agent: task.Agent, Sent: task.Sent, Ended: task.Settled})
	}
	if task.SettledSeq == e.Seq {
		if r, ok := conversation.ResultOf(e.Cause); ok && r.TaskID == task.ID {
			t.Verdicts = ts.verdicts(append(OwnVerdicts(e.Cause), e.Verdicts...)...)
		}
	}
	return t
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
