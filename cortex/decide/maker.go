package decide

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/budget"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/decide/catalog"
	"github.com/cortex-orchestrator/cortex/cortex/policy"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Config is what a Maker needs. The fields are those of the same name of cortex.Config, with its defaults filled in.
type Config struct {
	Transport     transport.Transport // shows the text of an answer while it is written
	Decider       llm.Decider
	Agents        func(tenant string) []prompt.Agent
	Router        *router.Index         // nil: prompts show all agents
	Policy        func() *policy.Policy // nil allows everything
	Spending      *budget.Spending
	Shortlist     int
	Authenticated bool
	TaskTimeout   time.Duration
	DecideTimeout time.Duration
	Decisions     int // at most MaxDecisions
	Logger        *slog.Logger
	Now           func() time.Time
	NewID         func() string
}

// Maker makes the decisions of an orchestrator. It is safe for concurrent use, for different conversations.
type Maker struct {
	cfg        Config
	log        *slog.Logger
	catalog    catalog.Catalog
	taskLimits *taskLimits
	interrupts *interrupts
	inFlight   *inFlight
	callers    callers
	late       error // with which the time limit ends a decision
	stuck      stuck
	rates      rates
	decisions  atomic.Int64
	failures   atomic.Int64
}

// New returns a Maker. It does no I/O.
func New(cfg Config) *Maker {
	return &Maker{
		cfg: cfg, log: cfg.Logger, taskLimits: newTaskLimits(), interrupts: newInterrupts(), inFlight: newInFlight(&cfg),
		callers: make(callers), late: fmt.Errorf("%w %v", errSlow, cfg.DecideTimeout),
	}
}

// Judge fills in what an entry says, beside a decision, of the tasks that its cause is about: a result that is none, tasks that must not be
// given any more, and those that are tried again. It comes before [conversation.Conversation.Begin].
func (m *Maker) Judge(conv *conversation.Conversation, entry *conversation.Entry) {
	entry.Rejected = reject(conv, entry.Cause)
	entry.Withheld = m.withhold(conv, entry.Cause)
	entry.Retries = m.retries(conv, entry)
}

// Track lets the limits of agents know which tasks are under way in conv.
func (m *Maker) Track(conv *conversation.Conversation) { m.taskLimits.follow(conv, m.cfg.Now()) }

// With returns the conversations that have tasks with an agent, as far as they were tracked.
func (m *Maker) With(agent string) []conversation.Key { return m.taskLimits.with(agent) }

// Tasks returns how many tasks of a requester, see [conversation.Conversation.Requester], an agent has, as far as they were tracked.
func (m *Maker) Tasks(agent, requester string) int { return m.taskLimits.of(agent, requester) }

// MarkSent notes that a task is in its agent's inbox now.
func (m *Maker) MarkSent(agent string, task a2a.TaskID) { m.taskLimits.markSent(agent, task) }

// Sent returns how many tasks of an agent are under way that are marked as sent.
func (m *Maker) Sent(agent string) int { return m.taskLimits.sentTo(agent) }

// Counts returns how often the decider was called, and how often there was no decision.
func (m *Maker) Counts() (decisions, failures int64) { return m.decisions.Load(), m.failures.Load() }

// Trouble tells people, in a line each, how many decisions do not end, and how many turns wait to be decided.
func (m *Maker) Trouble() []string {
	var lines []string
	for _, line := range []string{m.stuck.trouble(), m.inFlight.trouble()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
