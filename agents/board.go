package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// ErrNoBoard is returned by the methods of a [Board] when the task has none: the agent's card does not name the pattern [agentcard.Blackboard], or a rule
// of Cortex forbids it, or the task was not given by Cortex.
var ErrNoBoard = errors.New("the task has no board")

// Intervals of readings.
const (
	boardAgain = time.Second      // an unanswered reading is repeated
	boardPoll  = 10 * time.Second // Watch reads again when it was told nothing
)

// Board is the board of a task: agents that work on tasks of the same request post on it, and read what others have posted. Cortex keeps it in the
// conversation's log while the request is open. Nobody else can read it. Its methods are safe for concurrent use; they work while the handler runs.
type Board struct{ t *Task }

// Board returns the board of the task.
func (t *Task) Board() *Board { return &Board{t} }

// Allowed reports whether the task has a board.
func (b *Board) Allowed() bool {
	return b.t.agent != nil && b.t.Message != nil && b.t.Message.Metadata[transport.MetaBoard] == true
}

// Post puts a text on the board, in place of an earlier one of this agent with the same name, for ttl; 0 is an hour. So a task that is done again may post
// again. Post returns when the text is stored on its way to the board. A post that comes after the task has ended, finds the board full, or does not pass
// the evaluators of Cortex's policy, is not put there. The error wraps [transport.ErrInvalid] for a text that is too long, see [transport.MaxPost].
func (b *Board) Post(ctx context.Context, name, text string, ttl time.Duration) error {
	if !b.Allowed() {
		return fmt.Errorf("post: %w", ErrNoBoard)
	}
	if err := b.send(ctx, b.t.agent.nextID(), &transport.Post{Name: name, Text: text, TTL: ttl}); err != nil {
		return fmt.Errorf("post: %w", err)
	}
	return nil
}

// Read returns what is on the board, the oldest first, the agent's own posts included. It blocks until Cortex answers or ctx ends.
func (b *Board) Read(ctx context.Context) ([]transport.BoardPost, error) {
	if !b.Allowed() {
		return nil, fmt.Errorf("read: %w", ErrNoBoard)
	}
	id, a := b.t.agent.nextID(), b.t.agent
	got := make(chan *transport.Board, 1)
	defer keepWhile(a, a.readings, id, got)()
	again := time.NewTicker(boardAgain)
	defer again.Stop()
	for n := 0; ; n++ {
		ask := id
		if n > 0 { // an inbox takes an id once
			ask = a.nextID()
			defer keepWhile(a, a.readings, ask, got)()
		}
		if err := b.send(ctx, ask, &transport.ReadBoard{}); err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		select {
		case board := <-got:
			return board.Posts, nil
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("read: %w", context.Cause(ctx))
		}
	}
}

// Watch yields what is on the board, and then what is posted, in the order of the posts, until ctx ends, which is no error. A post that is replaced before
// it is yielded is left out. An error is the last that is yielded.
func (b *Board) Watch(ctx context.Context) iter.Seq2[transport.BoardPost, error] {
	return func(yield func(transport.BoardPost, error) bool) {
		if !b.Allowed() {
			yield(transport.BoardPost{}, fmt.Errorf("watch: %w", ErrNoBoard))
			return
		}
		a, told := b.t.agent, make(chan struct{}, 1)
		defer keepWhile(a, a.watches, told, b.t.ID)()
		for last := uint64(0); ; {
			posts, err := b.Read(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(transport.BoardPost{}, err)
				return
			}
			for _, p := range posts {
				if p.Seq <= last {
					continue
				}
				last = p.Seq
				if !yield(p, nil) {
					return
				}
			}
			select {
			case <-told:
			case <-time.After(boardPoll):
			case <-ctx.Done():
				return
			}
		}
	}
}

// keepWhile has a value in one of the agent's maps until the caller calls end.
func keepWhile[K comparable, V any](a *agent, in map[K]V, k K, v V) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in[k] = v
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(in, k)
	}
}

func (b *Board) send(ctx context.Context, id string, p transport.Payload) error {
	t := b.t
	return t.agent.publish(ctx, transport.Inbox(t.Tenant, transport.Cortex), &transport.Event{
		ID: id, Time: time.Now(), From: t.agent.id, To: transport.Cortex, Tenant: t.Tenant, ContextID: t.ContextID, TaskID: t.ID,
		Traceparent: t.Traceparent, Tracestate: t.Tracestate, Payload: p,
	})
}

// board handles a board that Cortex sends: the answer to a reading, or what was posted on that of a task.
func (a *agent) board(task a2a.TaskID, p *transport.Board) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.Read != "" {
		if got := a.readings[p.Read]; got != nil {
			select {
			case got <- p:
			default: // it was answered before
			}
		}
		return
	}
	for told, id := range a.watches {
		if id == task {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}
}
