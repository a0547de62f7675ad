package decide

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/learn"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/locks"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Config has the dependencies of a Maker: the fields of cortex.Config with the same names, with defaults filled in.
type Config struct {
	Transport     transport.Transport // publishes the text of an answer as it is written
	Decider       llm.Decider
	Agents        func(tenant string) []prompt.Agent
	Present       func(agentID string) bool // nil: Agents has all
	Router        *router.Index             // nil: prompts show all agents
	Policy        func() *policy.Policy     // nil allows everything
	Spending      *budget.Spending
	Notes         storage.Notes                          // nil: calls cannot be counted
	Record        func(agent, skill string) learn.Record // nil: nothing is known
	Shortlist     int
	Authenticated bool
	TaskTimeout   time.Duration
	DecideTimeout time.Duration
	Decisions     int // at most MaxDecisions
	Logger        *slog.Logger
	Now           func() time.Time
	NewID         func() string
}

// Maker makes the decisions of an orchestrator. It is safe for concurrent use with different conversations.
type Maker struct {
	cfg        Config
	log        *slog.Logger
	catalog    catalog.Catalog
	taskLimits *taskLimits
	interrupts *interrupts
	inFlight   *inFlight
	computing  *inFlight // nil: the decider waits for a model
	checking   *inFlight // results, by rules
	validating *inFlight // results, by their schemas, which takes a second at most
	callers    callers
	late       error // the cause with which the time limit ends a decision
	stuck      stuck
	rates      rates
	tenders    tenders
	decisions  atomic.Int64
	failures   atomic.Int64
	denied     denied
	counting   locks.Locks[string] // of notes that count calls, by key
}

// denied counts what the rules of the policy have denied.
type denied struct{ Tenant, Agent, Rate, Limit atomic.Int64 }

// Denied are counts of what the rules of the policy have denied.
type Denied struct {
	Tenant int64 // turns of a tenant that is not served
	Agent  int64 // delegations to an agent, or for a skill, that may not be asked for; the model may have been told, and have chosen another one
	Rate   int64 // requests of agents that ask too often
	Limit  int64 // decisions with more tasks, or calls of a skill, than a rule allows
}

// New returns a Maker. It does no I/O.
func New(cfg Config) *Maker {
	return &Maker{
		cfg: cfg, log: cfg.Logger, taskLimits: newTaskLimits(), interrupts: &interrupts{deciding: map[conversation.Key]deciding{}}, inFlight: newInFlight(&cfg), computing: newComputing(&cfg),
		checking: newChecking(), validating: newChecking(), callers: make(callers), tenders: tenders{open: map[string]*tender{}}, late: fmt.Errorf("%w %v", errSlow, cfg.DecideTimeout),
	}
}

// Redirect sets which tasks that the cause of entry concerns must not be sent any more, and which are tried again, and where. The entry says already
// whether a result is rejected. It must be called before [conversation.Conversation.Begin].
func (m *Maker) Redirect(conv *conversation.Conversation, entry *conversation.Entry) {
	entry.Withheld = m.withhold(conv, entry.Cause)
	if entry.Retries = nil; entry.Rejected == "" {
		entry.Retries = m.retries(conv, entry)
	}
}

// Track updates the counts of tasks under way from conv.
func (m *Maker) Track(conv *conversation.Conversation) { m.taskLimits.follow(conv, m.cfg.Now()) }

// With returns the tracked conversations that have tasks with an agent.
func (m *Maker) With(agent string) []conversation.Key { return m.taskLimits.with(agent) }

// Tasks returns how many tracked tasks of a requester an agent has; see [conversation.Conversation.Requester].
func (m *Maker) Tasks(agent, requester string) int { return m.taskLimits.of(agent, requester) }

// MarkSent records that a task is in its agent's inbox.
func (m *Maker) MarkSent(agent string, task a2a.TaskID) { m.taskLimits.markSent(agent, task) }

// Sent returns how many tasks under way with an agent are marked as sent.
func (m *Maker) Sent(agent string) int { return m.taskLimits.sentTo(agent) }

// Counts returns how often the decider was called, and how often that gave no decision.
func (m *Maker) Counts() (decisions, failures int64) { return m.decisions.Load(), m.failures.Load() }

// Denied returns what the rules have denied.
func (m *Maker) Denied() Denied {
	c := &m.denied
	return Denied{Tenant: c.Tenant.Load(), Agent: c.Agent.Load(), Rate: c.Rate.Load(), Limit: c.Limit.Load()}
}

// Deciding returns how many decisions are being made, and how many turns wait for one.
func (m *Maker) Deciding() (deciding, waiting int) {
	m.inFlight.mu.Lock()
	defer m.inFlight.mu.Unlock()
	return m.inFlight.deciding, m.inFlight.undecided - m.inFlight.deciding
}

// Trouble returns a line each about decisions that do not end, and turns that wait for one.
func (m *Maker) Trouble() []string {
	return slices.DeleteFunc([]string{m.stuck.trouble(), m.inFlight.trouble()}, func(line string) bool { return line == "" })
}
