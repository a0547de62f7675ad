package persona

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/agents/internal/records"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Options configures an Agent.
type Options struct {
	// Dir is where agents keep their journals. Each agent has a subfolder, which only one process can use at a time.
	Dir string
	// Model is asked for the steps.
	Model *llm.Asker
	// Root is the folder whose files the agent may read and, if its persona may, write; nil: none.
	Root *os.Root
	// Skills are those that the agent may load.
	Skills []*Skill
	// Servers are the MCP servers whose tools the agent has. The caller runs and closes them.
	Servers []*Server
	// Logger; nil discards.
	Logger *slog.Logger
}

// Agent is an [agents.Executor] that does tasks as a persona says.
type Agent struct {
	p       *Persona
	o       Options
	log     *slog.Logger
	journal *records.Journal[record]
	memory  *memory
	outputs map[string]*agentcard.Schema // of skills, by id
	editing sync.Mutex                   // held while a file is changed
}

var _ agents.Executor = (*Agent)(nil)

// Open makes an agent. Call [Agent.Close] to end it.
func Open(p *Persona, o *Options) (*Agent, error) {
	a := &Agent{p: p, o: *o, log: o.Logger, outputs: map[string]*agentcard.Schema{}}
	a.log = cmp.Or(a.log, slog.New(slog.DiscardHandler))
	for id, ability := range agentcard.SpecOf(p.Card).Abilities {
		if ability.OutputSchema != nil {
			if s, err := agentcard.Compile(ability.OutputSchema); err == nil {
				a.outputs[id] = s
			}
		}
	}
	id, err := transport.AgentID(p.Card.Name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.File, err)
	}
	folder := Folder(o.Dir, id)
	if a.journal, err = openJournal(folder, time.Now(), a.log); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	a.memory = &memory{
		files: &taskfile.Folder{Dir: filepath.Join(folder, memoryDir), Age: maxMemory, Most: memoryFiles, Bytes: memoryBytes, Warn: a.log.Warn},
		now:   time.Now, log: a.log, told: map[string]bool{},
	}
	return a, nil
}

// Folder returns the folder of an agent, which is in dir also if the id names a path.
func Folder(dir, agentID string) string { return records.Folder(dir, agentID) }

// ServersDir returns the folder for the journals of the MCP servers of an agent.
func ServersDir(dir, agentID string) string { return filepath.Join(Folder(dir, agentID), serversDir) }

// Close ends the agent. The tasks that it does have to be over.
func (a *Agent) Close() error { return a.journal.Close() }

// Tools returns the names of the tools that the agent has, and the words of its file for which there is no tool here.
func (a *Agent) Tools() (has, foreign []string) {
	for _, t := range a.box() {
		has = append(has, t.name)
	}
	return has, a.p.Tools.Foreign(has)
}

// Execute implements [agents.Executor].
func (a *Agent) Execute(ctx context.Context, t *agents.Task) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		r, err := a.do(ctx, t)
		if no, ok := errors.AsType[*refusal](err); ok {
			m := &a2a.Message{Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{no.part}}
			yield(&a2a.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Message: m}}, nil)
			return
		}
		for e, err := range agents.Handler(func(context.Context, *agents.Task) (*agents.Result, error) { return r, err }).Execute(ctx, t) {
			yield(e, err)
		}
	}
}

// do works on a task, goes on with it, or returns its outcome again.
func (a *Agent) do(ctx context.Context, t *agents.Task) (*agents.Result, error) {
	r, err := a.journal.Read(t)
	if err != nil {
		return nil, err
	}
	message := ""
	if t.Message != nil {
		message = t.Message.ID
	}
	said := ""
	if t.Message != nil {
		said = textOf(t.Message.Parts)
	}
	w := &work{a: a, task: t, r: r, box: a.box(), began: time.Now(), kept: r != nil}
	switch {
	case r == nil && records.Continues(t):
		return nil, errors.New("the question that this answers was asked by an agent that kept it elsewhere: ask again for all of it")
	case r == nil && t.Delivery > 1 && slices.ContainsFunc(w.box, func(t *tool) bool { return t.effect == writes }):
		return nil, errors.New("the outcome is unknown: this was given to an agent before, whose journal is not here, and it is not done a second time: look what was done, and ask again")
	case r == nil:
		w.r = &record{}
		w.take(message)
		if err := w.keep(); err != nil {
			return nil, err
		}
		w.kept = true
	case r.Outcome != nil:
		return w.result(), nil
	case r.Asked != nil && r.Message == message: // the question was not acknowledged
		return agents.InputRequired(r.Asked.Text), nil
	case r.Asked != nil:
		w.take(message)
		if result, err := w.reply(said); result != nil || err != nil {
			return result, err
		}
	default:
		w.take(message) // another attempt, or another delivery: it goes on where it was
	}
	result, err := w.run(ctx)
	return result, w.told(err)
}

// take notes the message that the work goes on with. A reply gets the parts of the task that it belongs to, so that the task is what it was.
func (w *work) take(message string) {
	t, news := w.task, message != w.r.Message
	w.r.Message = message
	switch {
	case t.Message == nil:
	case !records.Continues(t):
		w.r.Parts = t.Message.Parts
	case len(w.r.Parts) > 0: // none: an older version has not kept them
		if news {
			w.r.Parts = append(w.r.Parts, transport.FilesOf(t.Message.Parts)...)
		}
		whole := *t.Message
		whole.Parts = w.r.Parts
		t.Message = &whole
	}
}
