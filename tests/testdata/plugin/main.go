// Parrot is a cortex with a language model, an agent, a transport, a store and a way to ask of its own: what somebody else builds in a module of theirs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/app"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/llm/middleware"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

func main() {
	app.Main(app.Options{
		Providers: map[string]app.Provider{"parrot": {
			Model:  "grey",
			KeyEnv: "PARROT_KEY",
			Price:  middleware.Price{Input: 1, Output: 2},
			Check:  func(ep *app.Endpoint) error { _, err := newParrot(ep); return err },
			Open:   func(_ context.Context, ep *app.Endpoint) (llm.Client, error) { return newParrot(ep) },
		}},
		Agents:     []app.Agent{{Card: wave, Executor: agents.Handler(waveBack)}},
		Transports: map[string]app.Transport{"loft": {Open: openLoft, Private: true}},
		Stores:     map[string]app.Store{"diary": {Open: openDiary}},
		Roles:      []app.Role{{Name: "perch", About: "passers-by ask by HTTP", Open: openPerch}},
	})
}

// openLoft opens the memory transport. A real one connects to the server that at.URL names, and is not private.
func openLoft(context.Context, *app.Target) (transport.Transport, error) { return memory.New(nil), nil }

var wave = &a2a.AgentCard{
	Name: "agent_wave", Description: "Waves back", Version: "1",
	Skills: []a2a.AgentSkill{{ID: "wave", Name: "Wave", Description: "Waves back", Tags: []string{"wave"}}},
}

func waveBack(context.Context, *agents.Task) (*agents.Result, error) { return agents.Text("\\o/"), nil }

// parrot is a model that knows a sentence. A real one sends the request to its vendor and yields what comes back.
type parrot struct {
	model  string
	config struct {
		Sentence string `json:"sentence"`
		Fails    int    `json:"fails"` // how often it cannot be reached at first
	}
}

func newParrot(ep *app.Endpoint) (*parrot, error) {
	p := &parrot{model: ep.Model}
	p.config.Sentence = "Polly wants a cracker."
	if err := ep.Decode(&p.config); err != nil {
		return nil, err
	}
	if p.config.Fails < 0 {
		return nil, fmt.Errorf("fails: %d: it cannot be less than nothing", p.config.Fails)
	}
	return p, nil
}

func (p *parrot) Generate(_ context.Context, r *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		if p.config.Fails > 0 {
			p.config.Fails--
			yield(llm.Chunk{}, &llm.Error{Kind: llm.ErrUnavailable, Err: errors.New("the parrot sleeps")})
			return
		}
		answer, err := json.Marshal(map[string]any{"kind": "respond", "say": p.config.Sentence, "delegations": []any{}, "reason": "always"})
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		_ = yield(llm.Chunk{Text: string(answer)}, nil) &&
			yield(llm.Chunk{Done: true, Model: p.model, Usage: llm.Usage{Input: 1_000_000, Output: 1_000_000}}, nil)
	}
}
