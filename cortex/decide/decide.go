package decide

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// decision is one decision in the making.
type decision struct {
	m          *Maker
	stop       <-chan struct{}      // closed when the orchestrator stops
	compute    func(f func()) error // calls f when there is a place for one more decision that is computed; nil: the decider waits for a model
	conv       *conversation.Conversation
	turn       *conversation.Turn
	entry      *conversation.Entry
	policy     *policy.Policy      // in force for this decision
	all        []prompt.Agent      // present agents that the requester may see
	agents     []prompt.Agent      // agents that the turn may give work to
	candidates *catalog.Candidates // made of agents; nil when nothing can choose a shortlist
	accounts   budget.Accounts

	seen   *llm.Turn            // what the decider was shown last
	fits   *llm.Turn            // what fits according to the decider, and was not decided yet; or nil
	roster *conversation.Roster // what is new in seen
	// The shortlist that was offered, and the agents that are unavailable.
	shortlist   []conversation.Shortlisted
	unavailable []prompt.Unavailable
	paid        llm.Usage // besides the decision itself
	auctions    []conversation.Auction
	round       *conversation.Swarm // that the decision begins; nil: none
	ended       conversation.SwarmEnd
}

// Decide sets the entry's decision, or its failure when no decision is possible. An error means that nothing was decided: the orchestrator is
// stopping, or the conversation has to be loaded again when the error is a [LeftBehind].
func (m *Maker) Decide(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry, lost *Lost) error {
	if why := m.bar(conv, turn, entry); why != "" {
		entry.Failure = why
		return nil
	}
	if lost != nil {
		entry.Unmade = slices.Clone(lost.Entry.Unmade)
	}
	d := m.newDecision(ctx, conv, turn, entry)
	if entry.Decision = d.answerReply(ctx); entry.Decision != nil {
		m.log.InfoContext(ctx, "decided by the user", "context_id", conv.ContextID, "turn", turn.ID, "kind", entry.Decision.Kind,
			"agents", delegates(entry.Decision), "reason", entry.Decision.Reason)
		return ctx.Err()
	}
	if turn.Direct == nil {
		if ok, err := d.goOn(ctx); ok {
			return err
		}
		if d.adopt(ctx, lost) {
			m.log.InfoContext(ctx, "decision kept, though the log has gone on", "context_id", conv.ContextID, "turn", turn.ID)
			return nil
		}
	}
	if _, request := transport.Request(entry.Cause); request && m.cfg.Authenticated && m.uncheckedOf(conv.Requester(turn)) {
		entry.Failure = "Too much at once: too many results of your requests are still to be checked. Ask again when some are answered."
		return nil
	}
	if turn.Direct != nil {
		d.direct(ctx)
		return ctx.Err()
	}
	return d.decide(ctx)
}

// bar returns why there is no decision at all, or "".
func (m *Maker) bar(conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) string {
	if why := conv.OverLimit(turn); why != "" {
		return why
	}
	if why := m.overOwnRate(conv, turn, entry); why != "" {
		return why
	}
	if m.policy().DeniesTenant(conv.Tenant) {
		m.denied.Tenant.Add(1)
		return notServed
	}
	return ""
}

// decide has the decider decide, when there is room for one more decision and within the time for it.
func (d *decision) decide(ctx context.Context) error {
	m, conv, turn, entry := d.m, d.conv, d.turn, d.entry
	dctx, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	defer m.interrupts.begin(conv, turn, m.mayCancelTurn(conv, turn), interrupt)()

	leave, waited, err := m.inFlight.enter(dctx, conv.Requester(turn), entry.Cause, conv.Weight(), m.cfg.Now())
	switch words := conversation.Failure(""); {
	case errors.As(err, &words):
		entry.Failure = string(words)
		return nil
	case err != nil && ctx.Err() == nil:
		entry.Failure = conversation.AnswerCanceled
		return nil
	case err != nil:
		return err
	}
	defer leave()
	if waited {
		ended := d.ended
		d = m.newDecision(ctx, conv, turn, entry) // agents and rules may have changed while the turn waited
		d.ended = ended
	}
	if m.computing != nil {
		patient := dctx // the time for the decision is not for what waits to be computed
		d.compute = func(f func()) error {
			leave, _, err := m.computing.enter(patient, conv.Requester(turn), entry.Cause, 0, m.cfg.Now())
			if err != nil {
				return err
			}
			defer leave()
			f()
			return nil
		}
	}
	dctx = llm.WithRequester(dctx, conv.Requester(turn))
	dctx, cancel := context.WithTimeoutCause(dctx, m.cfg.DecideTimeout, m.late)
	defer cancel()

	began := m.cfg.Now()
	decided, err := d.make(dctx)
	if errors.Is(err, errStuck) {
		return d.leave(ctx, context.Cause(dctx))
	}
	if dctx.Err() != nil && (err != nil || errors.Is(context.Cause(dctx), errCanceled)) {
		err = context.Cause(dctx)
	}
	d.spend(ctx, decided, err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errCanceled):
		if decided != nil {
			d.unmake(d.gated(decided))
		}
		entry.Failure = conversation.AnswerCanceled
	case err != nil:
		d.fail(ctx, err)
	default:
		d.set(decided)
		m.log.LogAttrs(ctx, slog.LevelInfo, "decided", slog.String("context_id", conv.ContextID), slog.String("turn", turn.ID),
			slog.String("kind", string(decided.Kind)), slog.Any("agents", delegates(decided)),
			slog.Duration("took", m.cfg.Now().Sub(began).Round(time.Microsecond)))
	}
	return nil
}

// spend records what the decision has cost, which may have failed with err.
func (d *decision) spend(ctx context.Context, decided *llm.Decision, err error) {
	unpaid := d.paid
	switch {
	case err == nil:
		unpaid = unpaid.Add(decided.Usage)
	case decided != nil:
		d.pay(decided.Usage)
		unpaid = d.paid
	}
	d.m.cfg.Spending.Spend(ctx, unpaid)
	if err == nil || unpaid != (llm.Usage{}) { // what a model that is away does not cost says nothing
		d.m.cfg.Spending.Learn(unpaid)
	}
	if err != nil && (d.entry.Omitted > 0 || errors.Is(err, llm.ErrTooLong)) { // only a successful decision shows what can be left out
		d.entry.Summary, d.entry.Omitted = nil, 0
	}
}

// fail logs why there is no decision, and sets the failure that the user gets.
func (d *decision) fail(ctx context.Context, err error) {
	d.m.failures.Add(1)
	attrs := []any{"context_id", d.conv.ContextID, "turn", d.turn.ID, "err", err}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, "stack", string(p.stack))
	}
	d.m.log.WarnContext(ctx, "no decision", attrs...)
	d.entry.Failure, d.entry.Shortlist = d.explain(err), d.shortlist
}

// set sets the entry's decision and what comes with it.
func (d *decision) set(decided *llm.Decision) {
	d.entry.Decision, d.entry.Roster, d.entry.Shortlist = decided, d.roster, d.shortlist
	if d.endSwarm(decided); !decided.Kind.Answers() {
		d.ended = ""
	}
	d.entry.Terms, d.entry.Consent, d.entry.Patterns = d.inSwarm(d.terms(decided), decided), d.consent(decided), d.patterns()
}

// goOn decides about the next round of a swarm, if the turn has one that goes on, and reports whether it did.
func (d *decision) goOn(ctx context.Context) (ok bool, err error) {
	if n := len(d.turn.Steps); n == 0 || d.turn.Steps[n-1].Swarm == nil {
		return false, nil
	}
	decided, err := d.nextRound(ctx)
	switch {
	case err != nil:
		d.entry.Failure = d.explain(err)
	case decided == nil:
		return false, nil
	default:
		d.entry.Decision, d.entry.Terms, d.entry.Patterns = decided, d.inSwarm(d.terms(decided), decided), d.patterns()
		d.m.log.InfoContext(ctx, "decided by a rule", "context_id", d.conv.ContextID, "turn", d.turn.ID, "kind", decided.Kind, "agents", delegates(decided), "reason", decided.Reason)
	}
	return true, ctx.Err()
}

// newDecision returns a decision about turn, with the agents and rules of this moment.
func (m *Maker) newDecision(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) *decision {
	agents := m.cfg.Agents(conv.Tenant)
	d := &decision{m: m, stop: ctx.Done(), conv: conv, turn: turn, entry: entry, all: agents, agents: agents}
	d.permit()
	return d
}

// make asks the decider, and asks again when the decision is above the in-flight limit of an agent. With an error it may return a decision that was
// made and cannot be used.
func (d *decision) make(ctx context.Context) (*llm.Decision, error) {
	var err error
	if d.accounts, err = d.m.accounts(ctx, d.conv, d.turn, d.entry); err != nil {
		return nil, noAccount(err)
	}
	if err := d.compact(ctx); err != nil {
		return nil, err
	}
	for again := 0; ; again++ {
		decided, err := d.fit(ctx)
		if err != nil {
			return decided, err
		}
		for i := range decided.Delegations {
			d.nameSkill(&decided.Delegations[i])
		}
		if d.swarm(decided); d.round == nil {
			d.auction(ctx, decided)
		}
		full, say, err := d.limit(ctx, decided)
		switch {
		case err != nil:
			return decided, err
		case say != "":
			d.m.denied.Limit.Add(1)
			d.round, d.auctions = nil, nil
			return asLogged(&llm.Decision{Kind: llm.KindRespond, Say: say, Reason: "a rule has the first result answer a repeated call", Model: policyModel, Usage: decided.Usage})
		case len(full) == 0:
			return decided, nil
		}
		d.m.denied.Limit.Add(1)
		if again == maxFull {
			return decided, conversation.Failure("Nothing was done, since agents have no room for it now (" + reasons(full) + "). Ask again in a while.")
		}
		d.pay(decided.Usage)
		d.markUnavailable(full)
	}
}

// limit asks the limits for room for the delegations of a decision, and then the gates of the policy, and returns the agents that have none, with the
// reasons. With say nothing is to be done, since that is the answer already.
func (d *decision) limit(ctx context.Context, decided *llm.Decision) (full map[string]string, say string, err error) {
	sent := d.consent(decided) == ""
	if full = d.admit(decided, sent); len(full) > 0 {
		return full, "", nil
	}
	return d.gate(ctx, decided, sent)
}

// fit asks the decider, summarising the conversation until it fits.
func (d *decision) fit(ctx context.Context) (*llm.Decision, error) {
	for again := 0; ; again++ {
		decided, err := d.ask(ctx)
		if _, ok := d.m.cfg.Decider.(llm.Compactor); !ok || !errors.Is(err, llm.ErrTooLong) || again == maxTooLong {
			return decided, err
		}
		shorter, cerr := d.summarise(ctx, tooLong)
		if cerr != nil && !errors.Is(cerr, llm.ErrTooLong) {
			return nil, cerr
		}
		if !shorter {
			return nil, err
		}
	}
}

// pay records costs besides those of the decision.
func (d *decision) pay(u llm.Usage) {
	u = conversation.Credible(u)
	d.paid = d.paid.Add(u)
	d.entry.Usage = d.entry.Usage.Add(u)
}

// accounts returns what may still be spent on a turn.
func (m *Maker) accounts(ctx context.Context, conv *conversation.Conversation, turn *conversation.Turn, entry *conversation.Entry) (budget.Accounts, error) {
	return m.cfg.Spending.Accounts(ctx, conv.Chain(turn).Usage.Add(entry.Usage), conv.Usage.Add(entry.Usage), entry.Time)
}

// affords returns an error when nothing is left to be spent. It is for a decision for which no model is paid: the agents' own requests may cost something.
func (d *decision) affords(ctx context.Context) error {
	accounts, err := d.m.accounts(ctx, d.conv, d.turn, d.entry)
	if err != nil {
		return noAccount(err)
	}
	if _, why := accounts.Allowance(llm.Usage{}); why != "" {
		d.entry.Measured.Exhausted = accounts.Tightest(llm.Usage{})
		return conversation.Failure(why)
	}
	return nil
}

func noAccount(err error) error {
	return conversation.Failure("I could not decide what to do: there is a budget for the day, and what was spent today cannot be looked up or written down. " +
		"Ask again in a minute. (" + conversation.Explain(err) + ")")
}

func delegates(d *llm.Decision) []string {
	var ids []string
	for _, del := range d.Delegations {
		ids = append(ids, del.Agent)
	}
	return ids
}
