package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/agentcard"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Company runs peers as agents of this process. Its methods are safe for concurrent use.
type Company struct {
	Options *Options
	Renamed string // how an agent gets another name, for people
	// Tell says that a peer is tried again, and why.
	Tell func(url string, err error)

	mu      sync.Mutex
	urls    map[string]string // by the id of the agent: two agents with one id would get each other's tasks
	waiting map[string]string // why a peer that is tried again does not work, by its URL
}

// enter returns an error if another agent has the id.
func (c *Company) enter(id, at string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first := c.urls[id]; first != "" && first != at {
		return fmt.Errorf("%s: it is called %s, as %s is: it is left out, unless it gets another name by %s", BareURL(at), id, BareURL(first), c.Renamed)
	}
	if c.urls == nil {
		c.urls = map[string]string{}
	}
	c.urls[id] = at
	return nil
}

// Serve serves a peer's agent until ctx ends.
type Serve func(ctx context.Context, a *Agent) error

// Run runs a peer as an agent, which serve serves, until ctx ends, or it fails.
func (c *Company) Run(ctx context.Context, p *Peer, serve Serve) error {
	a, err := Open(ctx, p, c.Options)
	if err != nil && ctx.Err() != nil {
		return nil // the user interrupted it, or another agent has failed
	}
	if err != nil {
		return err
	}
	defer a.Close() //nolint:errcheck // an error loses nothing: entries of its journal were written as they came
	if err := c.enter(a.ID(), p.URL); err != nil {
		return err
	}
	c.wait(p.URL, "")
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return a.Run(ctx) })
	running.Go(func() error {
		err := serve(ctx, a)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the agent has ended")
		}
		return err
	})
	return running.Wait()
}

// Keep runs a peer as an agent until ctx ends. When it fails it is run again, which stops no other.
func (c *Company) Keep(ctx context.Context, p *Peer, serve Serve) {
	c.Persist(ctx, p.URL, func() error { return c.Run(ctx, p, serve) })
}

// steady is how long something lasts that counts as working: if it fails after that, it is told again.
const steady = time.Minute

// Persist calls try until it returns nil or ctx ends, with pauses, and tells why it fails.
func (c *Company) Persist(ctx context.Context, at string, try func() error) {
	pauses := pausesFrom(time.Second, time.Minute)
	told := ""
	for {
		began := time.Now()
		err := try()
		if ctx.Err() != nil || err == nil {
			c.wait(at, "")
			return
		}
		if time.Since(began) > steady {
			pauses.Reset()
			told = ""
		}
		text := prompt.Clean(err.Error(), 300)
		c.wait(at, text)
		if text != told {
			c.Tell(at, err)
			told = text
		}
		if rest.For(ctx, pauses.NextBackOff()) != nil {
			return
		}
	}
}

// wait records why a peer does not work; "" when it does.
func (c *Company) wait(at, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == "" {
		delete(c.waiting, at)
		return
	}
	if c.waiting == nil {
		c.waiting = map[string]string{}
	}
	c.waiting[at] = why
}

// maxTrouble bounds the lines of [Company.Trouble].
const maxTrouble = 20

// Trouble returns a line for each peer that is tried again.
func (c *Company) Trouble() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for at, why := range c.waiting {
		lines = append(lines, fmt.Sprintf("A2A agent %s is tried again: %s", BareURL(at), why))
	}
	slices.Sort(lines)
	if more := len(lines) - maxTrouble; more > 0 {
		lines = append(lines[:maxTrouble], fmt.Sprintf("A2A agents that are tried again: %d more", more))
	}
	return lines
}

// BareURL returns a URL without what may be secret, its user and its query, for people. Other texts stay as they are.
func BareURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		text = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	return prompt.Clean(text, 200)
}

// aloneTime bounds the wait for the cards of others.
const aloneTime = 15 * time.Second

// Alone returns an error if an agent that is not of the same peer has the card's id: the two would get each other's tasks. renamed is how it gets
// another name.
func Alone(ctx context.Context, tr transport.Transport, tenant string, card *a2a.AgentCard, renamed string) error {
	ctx, cancel := context.WithTimeout(ctx, aloneTime)
	defer cancel()
	sub, err := tr.Subscribe(ctx, transport.Cards(tenant), nil)
	if err != nil {
		return nil // it may not read cards; then its credentials are for this id only
	}
	defer sub.Close()
	peer, others := agentcard.SpecOf(card).Labels[PeerLabel], map[string]bool{}
	_ = sub.Serve(ctx, func(_ context.Context, e *transport.Event) error { // an error is told when the agent joins
		switch p := e.Payload.(type) {
		case *transport.Card:
			if p.AgentID == card.Name && p.Card != nil {
				others[p.Instance] = p.Gone == "" && time.Since(e.Time) < p.TTL && agentcard.SpecOf(p.Card).Labels[PeerLabel] != peer
			}
		case *transport.Synced:
			cancel()
		}
		return nil
	})
	for _, other := range others {
		if other {
			return fmt.Errorf("there is another agent %s, which would get its tasks: give this one another name with %s", card.Name, renamed)
		}
	}
	return nil
}
