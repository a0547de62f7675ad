package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/view"
	"github.com/cortex-orchestrator/cortex/repl"
	"github.com/cortex-orchestrator/cortex/transport"
)

// backend answers the questions of a chat that events do not answer, from the store and the registry, without asking the orchestrator's process.
type backend struct {
	*link
	registry *registry.Registry
	isSet    isSet
	node     *node         // of this process; nil: another one is joined
	prompts  string        // folder of templates to try out; "": the node's own
	index    *router.Index // of the node in this process; nil: made on demand

	arrived <-chan struct{} // closed when the registry has the agents that are online; nil: it has them already
}

// known returns the known agents, after waiting for their arrival. Only callers that need agents wait: there may be many.
func (b *backend) known(ctx context.Context) (*registry.Snapshot, error) {
	if b.arrived != nil {
		switch err := awaitCards(ctx, b.arrived, b.registry.Heard); {
		case errors.Is(err, errUnlisted):
			return nil, fmt.Errorf("%w: is the server at %s overloaded?", err, b.url)
		case err != nil:
			return nil, err
		}
	}
	return b.registry.Snapshot(), nil
}

func (b *backend) repl() repl.Backend {
	return repl.Backend{
		Agents: b.agents, Conversations: b.conversations, History: b.history, Turns: b.turns, Why: b.why, Prompt: b.prompt, Tasks: b.tasks, Usage: b.usage,
	}
}

// reader returns what package view reads from.
func (l *link) reader() *view.Reader {
	return &view.Reader{Store: l.store, Transport: l.bus, Tenant: l.tenant}
}

// client returns the user's side of conversations over l.
func (l *link) client() *client.Client {
	c := &client.Client{Transport: l.bus, Tenant: l.tenant, User: "user", Log: client.ReadLog(l.store, l.tenant)}
	if l.sender != "" && !conversation.IsAgent(l.sender) {
		c.User = l.sender
	}
	return c
}

// operator returns a client that administers conversations: a process with the orchestrator's credentials acts in the orchestrator's name.
func (l *link) operator() *client.Client {
	c := l.client()
	if l.sender == transport.Cortex {
		c.User = l.sender
	}
	return c
}

func (b *backend) agents(ctx context.Context) ([]repl.AgentInfo, error) {
	known, err := b.known(ctx)
	if err != nil {
		return nil, err
	}
	all := known.Agents()
	return agentInfos(all, view.NewLookalikes(all), time.Now()), nil
}

// lookalikes returns the names of the agents that are online.
func (b *backend) lookalikes(ctx context.Context) (*view.Lookalikes, error) {
	known, err := b.known(ctx)
	if err != nil {
		return nil, err
	}
	return view.NewLookalikes(known.Agents()), nil
}

func (b *backend) conversations(ctx context.Context) ([]repl.ConversationInfo, error) {
	list, _, err := view.Conversations(ctx, b.reader(), maxConversations)
	if err != nil {
		return nil, err
	}
	known, _ := view.DetailsOf(ctx, b.reader(), list) // on an error only the owners are missing
	return conversationInfos(list, known, b.sender != ""), nil
}

// maxConversations bounds the list of a chat.
const maxConversations = 50

func (b *backend) history(ctx context.Context, contextID string) iter.Seq2[*client.Line, error] {
	return func(yield func(*client.Line, error) bool) {
		alike, err := b.lookalikes(ctx)
		if err == nil {
			err = view.Transcript(ctx, b.reader(), contextID, alike, func(l *client.Line) bool { return yield(l, nil) })
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// turns lists the messages of a conversation from its loaded state, not from its whole log.
func (b *backend) turns(ctx context.Context, contextID string) ([]repl.Turn, error) {
	conv, err := storage.Load(ctx, b.store, b.tenant, contextID)
	if err != nil {
		return nil, err
	}
	var list []repl.Turn
	for _, t := range conv.Turns {
		if conversation.IsAgent(t.From) {
			continue
		}
		turn := repl.Turn{ID: t.ID, Who: t.From, Said: t.User}
		for _, p := range t.Files {
			turn.Said = strings.TrimSpace(turn.Said + " [" + client.Describe(ctx, b.bus, b.tenant, p) + "]")
		}
		if m, ok := conv.AnswerOf(t.From, t.Message); ok {
			turn.Answer = &client.Line{Time: t.Answered, Kind: client.LineAnswer, ID: m.ID, Text: transport.Text(m.Parts), Files: transport.FilesOf(m.Parts)}
		}
		list = append(list, turn)
	}
	return list, nil
}

func (b *backend) tasks(ctx context.Context, contextID string) (list []repl.TaskInfo, earlier string, err error) {
	conv, err := storage.Load(ctx, b.store, b.tenant, contextID)
	if err != nil {
		return nil, "", err
	}
	if n := conv.Begun - len(conv.Turns); n > 0 {
		earlier = fmt.Sprintf("… and those of %s before: `cortex conversations history %s`", counted(n, "turn"), shellWord(contextID))
	}
	return taskInfos(conv), earlier, nil
}

// taskInfos lists the tasks of the turns that conv still holds.
func taskInfos(conv *conversation.Conversation) []repl.TaskInfo {
	var list []repl.TaskInfo
	for _, t := range view.Remembered(conv) {
		list = append(list, taskInfo(&t))
	}
	return list
}
