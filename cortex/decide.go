package cortex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// errCanceled is the cause with which a Cancel ends a decision.
var errCanceled = errors.New("canceled by the user")

// decide sets the entry's decision, or its failure when there can be none. An error means that nothing was decided, since
// the orchestrator is being stopped.
func (o *Orchestrator) decide(ctx context.Context, conv *Conversation, turn *Turn, entry *Entry) error {
	if why := conv.overLimit(turn); why != "" {
		entry.Failure = why
		return nil
	}
	t := conv.llmTurn(turn, entry.Time)
	t.Last, t.MaxParallel = turn.Decisions+1 >= MaxSteps, MaxParallel
	t.Agents = o.cfg.Agents(conv.Tenant)
	if isAgent(turn.From) { // no cycles
		t.Agents = slices.DeleteFunc(slices.Clone(t.Agents), func(a prompt.Agent) bool {
			return a.ID == turn.From || slices.Contains(turn.Ancestors, a.ID)
		})
	}

	dctx, cancel := context.WithTimeoutCause(ctx, o.cfg.DecideTimeout, fmt.Errorf("no decision within %v", o.cfg.DecideTimeout))
	defer cancel()
	dctx, interrupt := context.WithCancelCause(dctx)
	defer interrupt(nil)
	done := o.beginDeciding(conv, turn, interrupt)
	defer done()

	text := o.newDraft(ctx, conv, turn)
	began := time.Now()
	decision, err := callDecider(dctx, o.cfg.Decider, t, text.write)
	text.flush()
	o.stats.Decisions.Add(1)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(context.Cause(dctx), errCanceled):
		entry.Failure = Canceled
		return nil
	case err != nil && dctx.Err() != nil:
		err = context.Cause(dctx)
	case err == nil:
		err = llm.Check(t, decision)
	}
	if err == nil {
		decision, err = asLogged(decision)
	}
	if err != nil {
		o.stats.Failures.Add(1)
		o.log.Error("no decision", "context_id", conv.ContextID, "turn", turn.ID, "err", err)
		entry.Failure = "I could not decide what to do: " + oneLine(err.Error())
		return nil
	}
	entry.Decision = decision
	o.log.Info("decided", "context_id", conv.ContextID, "turn", turn.ID, "kind", decision.Kind, "agents", delegates(decision),
		"took", time.Since(began).Round(time.Microsecond))
	return nil
}

// callDecider is Decide, with a panic of a plugged-in decider as an error.
func callDecider(ctx context.Context, d llm.Decider, t *llm.Turn, stream func(string)) (dec *llm.Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the decider panicked: %v\n%s", r, debug.Stack())
		}
	}()
	dec, err = d.Decide(ctx, t, stream)
	if err == nil && dec == nil {
		err = fmt.Errorf("%w: none", llm.ErrInvalidDecision)
	}
	return dec, err
}

// asLogged returns d as it will be read from the log, so that the fold is the same before and after a restart.
func asLogged(d *llm.Decision) (*llm.Decision, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrInvalidDecision, err)
	}
	logged := new(llm.Decision)
	if err := json.Unmarshal(b, logged); err != nil {
		return nil, fmt.Errorf("%w: %w", llm.ErrInvalidDecision, err)
	}
	for _, del := range logged.Delegations {
		var input any
		if err := json.Unmarshal(del.Input, &input); len(del.Input) > 0 && err != nil { // the agent could not read it either
			return nil, fmt.Errorf("%w: input for %s: %w", llm.ErrInvalidDecision, del.Agent, err)
		}
	}
	return logged, nil
}

// overLimit returns why turn cannot go on, or "".
func (c *Conversation) overLimit(turn *Turn) string {
	open := 0
	for _, t := range c.Turns {
		if t.Open() {
			open++
		}
	}
	switch {
	case turn.Decisions == 0 && open > MaxOpenTurns:
		return fmt.Sprintf("There are %d open requests in this conversation already. Wait for an answer, or cancel one, and ask again.", MaxOpenTurns)
	case turn.Hops >= MaxHops:
		return fmt.Sprintf("The request was handed on by %d agents; more than %d are not allowed.", turn.Hops, MaxHops-1)
	}
	return ""
}

func delegates(d *llm.Decision) []string {
	var ids []string
	for _, del := range d.Delegations {
		ids = append(ids, del.Agent)
	}
	return ids
}

func oneLine(s string) string {
	if first, _, cut := strings.Cut(s, "\n"); cut {
		s = first
	}
	const limit = 500
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + " […]"
	}
	return s
}

// beginDeciding lets a Cancel for this turn call cancel until done is called.
func (o *Orchestrator) beginDeciding(conv *Conversation, turn *Turn, cancel context.CancelCauseFunc) (done func()) {
	k := conversationKey{conv.Tenant, conv.ContextID}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deciding[k] = deciding{turn.ID, turn.From, cancel}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.deciding, k)
	}
}

// interrupt handles what comes on the orchestrator's control topic: a Cancel ends the decision that its turn waits for. The
// same Cancel comes through the inbox too, and cancels the turn's tasks.
func (o *Orchestrator) interrupt(_ context.Context, e *transport.Event) error {
	c, ok := e.Payload.(*transport.Cancel)
	if !ok || c.TaskID != "" {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.deciding[conversationKey{o.cfg.Tenant, e.ContextID}]
	if ok && (c.Turn == "" || c.Turn == d.turn) && mayCancel(e.From, d.from) {
		d.cancel(errCanceled)
	}
	return nil
}
