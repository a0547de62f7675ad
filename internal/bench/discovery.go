package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/fake"
	"github.com/cortex-orchestrator/cortex/prompt"
)

// DiscoveryConfig configures Discovery. Agents, their number, is required.
type DiscoveryConfig struct {
	Agents   int
	Cards    int           // to publish and find; 0 is 200
	Turns    int           // to measure; 0 is 500
	Limit    time.Duration // of each part, after which nothing more begins; 0 is a minute
	Progress Progress
}

// Discovery measures the cost of many agents: the time until a new one is in the prompt of a request that it fits, the size of that prompt, and how
// much longer a turn takes than with one agent. Prompts are rendered as for a model, and the agents' heartbeats continue.
func Discovery(ctx context.Context, cfg DiscoveryConfig) (figures []Figure, err error) {
	cfg.Limit, cfg.Cards, cfg.Turns = cmp.Or(cfg.Limit, defaultLimit), cmp.Or(cfg.Cards, 200), cmp.Or(cfg.Turns, 500)
	err = withFolder(func(dir string) error {
		figures, err = discovery(ctx, cfg, dir)
		return err
	})
	return figures, err
}

func discovery(ctx context.Context, cfg DiscoveryConfig, dir string) (_ []Figure, err error) {
	templates, err := prompt.New("")
	if err != nil {
		return nil, err
	}
	arrived := new(arrivals)
	decider := rendering{fake.New(nil), templates}
	quiet, err := startNode(ctx, nodeConfig{dir: filepath.Join(dir, "quiet"), workers: 1, decider: decider})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, quiet.Close()) }()
	n, err := startNode(ctx, nodeConfig{dir: filepath.Join(dir, "fleet"), workers: 1, decider: decider, onEvent: arrived.on})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.announceFleet(cfg.Agents, cfg.Progress); err != nil {
		return nil, err
	}
	cfg.Progress.tell("the agents are written down", 0, 1)
	if err := n.noted(); err != nil {
		return nil, err
	}
	cards, err := n.discoverCards(cfg, templates, arrived)
	if err != nil {
		return nil, err
	}
	latency, err := n.fleetTurns(cfg, quiet)
	if err != nil {
		return nil, err
	}
	return append(cards, latency...), nil
}

// discoverCards measures the time from before a card is published until a prompt with it is rendered.
func (n *node) discoverCards(cfg DiscoveryConfig, templates *prompt.Templates, arrived *arrivals) ([]Figure, error) {
	conv, i, largest := conversation.NewConversation("", "discovery"), 0, 0
	s := &side{width: 1, n: cfg.Cards, do: func(ctx context.Context, _ int) (time.Duration, error) {
		i++
		card := fleetCard(i)
		// A word that no other card has.
		word := strings.Map(func(r rune) rune { return 'k' + r - '0' }, fmt.Sprint(100_000+i))
		card.Name = "new_" + word
		card.Skills[0].Name, card.Skills[0].Description = "tune a "+word, "Tunes any kind of "+word
		there := arrived.expect(card.Name)
		begin := time.Now()
		if err := announce(ctx, n.agentBus, card); err != nil {
			return 0, err
		}
		select {
		case <-there:
		case <-time.After(defaultWait):
			return 0, fmt.Errorf("the card of %s: %w", card.Name, errLate)
		case <-n.ctx.Done():
			return 0, context.Cause(n.ctx)
		}
		in, _ := catalog.Preview(conv, "please tune my "+word, n.Routable(""), n.Index, time.Now())
		p, err := templates.Render(in)
		took := time.Since(begin)
		if err != nil {
			return 0, err
		}
		if !strings.Contains(p.System, card.Name) {
			return 0, fmt.Errorf("%s is in the registry, and not in the prompt of a request for it", card.Name)
		}
		largest = max(largest, sizeOf(p))
		return took, nil
	}}
	err := interleave(n.ctx, min(maxPieces, cfg.Cards), cfg.Limit, func(done, total int) { cfg.Progress.tell("new agents", done, total) }, s)
	return []Figure{
		{
			Case: "card_p50", What: fmt.Sprintf("card published until in the prompt, %s, p50", plural(cfg.Agents, "agent")),
			Value: s.sample.quantile(0.5) / 1000, Unit: "ms",
		},
		{Case: "card_p99", What: "the same, p99", Value: s.sample.quantile(0.99) / 1000, Unit: "ms", Least: 10, Aim: 1, Less: true},
		{
			Case: "prompt", What: fmt.Sprintf("prompt of a new conversation, %s, the largest", plural(cfg.Agents, "agent")),
			Value: float64(largest) / 1024, Unit: "KB", Least: 24, Less: true,
		},
	}, err
}

// fleetTurns compares a turn on a node with many agents with one on a quiet node.
func (n *node) fleetTurns(cfg DiscoveryConfig, quiet *node) ([]Figure, error) {
	var beating atomic.Bool
	ctx, cancel := context.WithCancel(n.ctx)
	beats, ctx := errgroup.WithContext(ctx)
	beats.Go(func() error { return n.beat(ctx, cfg.Agents, &beating) })
	defer beats.Wait() //nolint:errcheck // told below
	defer cancel()
	among, alone := &newcomer{n: n, prefix: "fleet"}, &newcomer{n: quiet, prefix: "alone"}
	defer among.Close()
	defer alone.Close()
	with := &side{width: 1, n: cfg.Turns, do: func(ctx context.Context, w int) (time.Duration, error) {
		beating.Store(true)
		return among.turn(ctx, w)
	}}
	without := &side{width: 1, n: cfg.Turns, do: func(ctx context.Context, w int) (time.Duration, error) {
		beating.Store(false)
		return alone.turn(ctx, w)
	}}
	tell := func(done, total int) { cfg.Progress.tell("turns", done, total) }
	if err := interleave(ctx, min(maxPieces, cfg.Turns), cfg.Limit, tell, with, without); err != nil {
		return nil, err
	}
	cancel()
	a, b := with.sample.quantile(0.5)/1000, without.sample.quantile(0.5)/1000
	return []Figure{
		{Case: "turn_fleet_p50", What: fmt.Sprintf("turn with %s, p50", plural(cfg.Agents, "agent")), Value: a, Unit: "ms"},
		{Case: "turn_quiet_p50", What: "turn with one agent, p50", Value: b, Unit: "ms"},
		{Case: "turn_added", What: "added latency of a turn, p50", Value: a - b, Unit: "ms", Least: 2, Less: true},
	}, beats.Wait()
}

// rendering is a decider that also renders the prompt of each decision, as one with a model does.
type rendering struct {
	llm.Decider
	templates *prompt.Templates
}

// Decide implements [llm.Decider].
func (r rendering) Decide(ctx context.Context, t *llm.Turn, stream func(string)) (*llm.Decision, error) {
	if _, err := r.templates.Render(&t.Input); err != nil {
		return nil, err
	}
	return r.Decider.Decide(ctx, t, stream)
}

// sizeOf returns the size of a prompt, in bytes.
func sizeOf(p *prompt.Prompt) int {
	size := len(p.System)
	for _, m := range p.Messages {
		size += len(m.Text)
	}
	return size
}

// arrivals reports when an agent is in the registry.
type arrivals struct{ expected atomic.Pointer[arrival] }

type arrival struct {
	id    string
	there chan struct{}
}

// expect returns a channel that receives a value when the agent with this id is present. Only one agent can be expected at a time.
func (a *arrivals) expect(id string) <-chan struct{} {
	x := &arrival{id, make(chan struct{}, 1)}
	a.expected.Store(x)
	return x.there
}

func (a *arrivals) on(e registry.Event) {
	if x := a.expected.Load(); x != nil && e.Kind == registry.EventRegistered && e.AgentID == x.id {
		x.there <- struct{}{}
	}
}
