package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/together"
	"github.com/cortex-orchestrator/cortex/transport"
)

// pushNote is what is stored of the push notification configs of a task. What is pushed is in the log: of that only a place is stored.
type pushNote struct {
	Task    a2a.TaskID `json:"task"`
	User    string     `json:"user"`
	Agent   string     `json:"agent,omitempty"` // that is asked; "": Cortex
	Targets []*target  `json:"targets"`
	Changed time.Time  `json:"changed"` // by a client

	key     string
	version conversation.Version
}

// target is one config.
type target struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Token       string    `json:"token,omitempty"`
	Scheme      string    `json:"scheme,omitempty"`
	Credentials string    `json:"credentials,omitempty"`
	Old         bool      `json:"old,omitempty"` // of a client of A2A 0.3
	Made        time.Time `json:"made"`
	By          string    `json:"by,omitempty"` // names the credentials of its client, see Push.Key

	Next    spot      `json:"next"`              // all before it was taken by the receiver
	Failing time.Time `json:"failing,omitzero"`  // since when the receiver takes nothing
	GivenUp time.Time `json:"given_up,omitzero"` // when it was given up
	Ended   time.Time `json:"ended,omitzero"`    // when it had all of a task that is over
}

// open reports whether something may be left to be pushed.
func (t *target) open() bool { return t.GivenUp.IsZero() && t.Ended.IsZero() }

// spot is a place in what is pushed of a task: one of the events that an entry of the log makes.
type spot struct {
	Version conversation.Version `json:"version"`
	Part    int                  `json:"part,omitempty"`
}

func (p spot) before(q spot) bool {
	return p.Version < q.Version || p.Version == q.Version && p.Part < q.Part
}

// pushKey returns the key of a task's note.
func pushKey(c *caller, id a2a.TaskID) string {
	contextID, messageID, _ := c.locate(id)
	return contextID + "." + strings.TrimPrefix(messageID, idPrefix)
}

// target returns a config, or nil.
func (n *pushNote) target(id string) *target {
	for _, t := range n.Targets {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// pushNote reads a note; one that is not there has no targets.
func (s *Server) pushNote(ctx context.Context, key string) (*pushNote, error) {
	of, err := s.outbox.notes.Note(ctx, s.cfg.Client.Tenant, storage.NotePush, key)
	if err != nil {
		return nil, err
	}
	return readPush(of), nil
}

// told returns an error for a client: what is none of the protocol's is of the store.
func (s *Server) told(err error) error {
	if of := (*a2a.Error)(nil); err == nil || errors.As(err, &of) {
		return err
	}
	return s.away(err)
}

func readPush(of storage.Note) *pushNote {
	n := &pushNote{key: of.Key, version: of.Version}
	if of.Version > 0 && json.Unmarshal(of.Value, n) != nil { // nobody can read it
		n.Targets = nil
	}
	n.Targets = slices.DeleteFunc(n.Targets, func(t *target) bool { return t == nil })
	return n
}

// pushTries bounds the attempts at a note that others change at the same time.
const pushTries = 32

// changePush changes a note, unless change returns false, and returns it as it is then. With erase, nothing is left of what it was before. A note without
// targets is removed: it would count for nobody.
func (s *Server) changePush(ctx context.Context, key string, erase bool, change func(*pushNote) (bool, error)) (*pushNote, error) {
	put := s.outbox.notes.PutNote
	if erase {
		put = s.outbox.notes.EraseNote
	}
	for try := range pushTries {
		if try > 2 { // a replica that answers may be behind
			if err := rest.For(ctx, pollFirst); err != nil {
				return nil, err
			}
		}
		n, err := s.pushNote(ctx, key)
		if err != nil {
			return nil, err
		}
		if ok, err := change(n); err != nil || !ok {
			return n, err
		}
		value, err := json.Marshal(n)
		switch {
		case err != nil:
			return nil, err
		case len(n.Targets) == 0:
			err = s.outbox.notes.DeleteNote(ctx, s.cfg.Client.Tenant, storage.NotePush, key, n.version)
		default:
			n.version, err = put(ctx, s.cfg.Client.Tenant, storage.NotePush, storage.Note{Key: key, Value: value, Version: n.version})
		}
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, transport.ErrTooLarge):
			return nil, invalid("the push notification configs of the task are too large together")
		case !errors.Is(err, storage.ErrConflict):
			return nil, err
		}
	}
	return nil, fmt.Errorf("push notification configs %s: %w", key, storage.ErrConflict)
}

// keepTarget stores a config, in the place of the one with its id, and reports whether it is new.
func (s *Server) keepTarget(ctx context.Context, c *caller, id a2a.TaskID, t *target) (made bool, err error) {
	key := pushKey(c, id)
	if err := s.outbox.counts.refresh(ctx, s); err != nil {
		return false, s.told(err)
	}
	n, err := s.pushNote(ctx, key)
	if err != nil {
		return false, s.told(err)
	}
	_, err = s.changePush(ctx, key, n.target(t.ID) != nil, func(n *pushNote) (bool, error) {
		n.Task, n.User, n.Agent, n.Changed = id, c.user(), c.agent, t.Made
		was := n.target(t.ID)
		if made = was == nil; !made {
			t.Next = was.Next
			*was = *t
			return true, nil
		}
		if len(n.Targets) >= mostTargets {
			return false, invalid("the task has %d push notification configs, which is the most: delete one", mostTargets)
		}
		if !s.outbox.counts.room(c.user()) {
			return false, exhausted(fmt.Sprintf("%d push notification configs of yours are for tasks that go on, which is the most: delete some", mostPushes))
		}
		n.Targets = append(n.Targets, t)
		return true, nil
	})
	if err != nil {
		return false, s.told(err)
	}
	if made {
		s.outbox.counts.add(c.user())
	}
	s.outbox.nudge(key)
	return made, nil
}

// dropTarget removes a config, if it was made at that time; with the zero time, whenever it was made.
func (s *Server) dropTarget(ctx context.Context, c *caller, id a2a.TaskID, targetID string, made time.Time) error {
	key := pushKey(c, id)
	_, err := s.changePush(ctx, key, true, func(n *pushNote) (bool, error) {
		left := slices.DeleteFunc(slices.Clone(n.Targets), func(t *target) bool {
			return t.ID == targetID && (made.IsZero() || t.Made.Equal(made))
		})
		if len(left) == len(n.Targets) {
			return false, nil
		}
		n.Targets, n.Changed = left, c.Clock().UTC()
		return true, nil
	})
	s.outbox.nudge(key)
	return s.told(err)
}

// countEach is how often the configs of all people are counted, at most.
const countEach = 10 * time.Second

// pushCounts counts the configs of people for tasks that go on: those that were stored when it counted last, and those that this process has stored
// since.
type pushCounts struct {
	asks together.Asks[struct{}, struct{}] // to count

	mu   sync.Mutex
	when time.Time
	of   map[string]int
}

// refresh counts if it was long ago, once for all who want that at the same time.
func (p *pushCounts) refresh(ctx context.Context, s *Server) error {
	if p.fresh(s.cfg.Client.Clock()) {
		return nil
	}
	// It is nobody's: behind the reads of the one who happens to count, all would wait.
	_, err := p.asks.Get(storage.WithRequester(ctx, ""), struct{}{}, func(ctx context.Context) (none struct{}, err error) {
		now := s.cfg.Client.Clock()
		if p.fresh(now) {
			return none, nil
		}
		var all []*pushNote
		for of, err := range s.outbox.notes.Notes(ctx, s.cfg.Client.Tenant, storage.NotePush) {
			if err != nil {
				return none, err
			}
			all = append(all, readPush(of))
		}
		p.set(all, now)
		return none, nil
	})
	return err
}

// fresh reports whether the counts are of now, or of a moment ago.
func (p *pushCounts) fresh(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of != nil && now.Sub(p.when) < countEach && !now.Before(p.when)
}

func (p *pushCounts) set(all []*pushNote, now time.Time) {
	of := map[string]int{}
	for _, n := range all {
		for _, t := range n.Targets {
			if t.Ended.IsZero() {
				of[n.User]++
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.of = now, of
}

func (p *pushCounts) room(user string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[user] < mostPushes
}

func (p *pushCounts) add(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[user]++
}
