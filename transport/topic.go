package transport

// Kind is the kind of a topic.
type Kind string

// The kinds of topic; the package documentation has their guarantees.
const (
	KindInbox Kind = "inbox"
	KindCards Kind = "cards"
	KindLive  Kind = "live"
)

// Topic is where events are published and subscribed. Use [Inbox], [Cards], [Live] or [Control] to make one. The zero Topic is invalid. Topics are
// comparable.
type Topic struct {
	Kind   Kind
	Tenant string // "" is the default tenant
	ID     string // Inbox: the agent's id. Live: the conversation's contextID. Cards: empty.
}

// Cortex is the agent id of the orchestrator itself: its inbox takes users' messages and agents' results.
const Cortex = "cortex"

// Queue is the inbox in which the orchestrator stores the tasks of agents that are at their limits. No agent has this id.
const Queue = Cortex + ":queue"

// IsReserved reports whether an id is the orchestrator's own, which no agent may have.
func IsReserved(agentID string) bool { return agentID == Cortex || agentID == Queue }

// Inbox returns the work queue of an agent, or of the orchestrator (see [Cortex]).
func Inbox(tenant, agentID string) Topic { return Topic{KindInbox, tenant, agentID} }

// Cards returns the topic of a tenant's agents. Its events carry [Card], [Synced] and [AgentEvent].
func Cards(tenant string) Topic { return Topic{Kind: KindCards, Tenant: tenant} }

// Live returns the topic on which a conversation can be watched.
func Live(tenant, contextID string) Topic { return Topic{KindLive, tenant, contextID} }

// Control returns the live topic of an agent rather than of a conversation: it reaches all running instances of the agent, with the guarantees of
// [Live]. A [Cancel] is sent there, since only the instance that works on a task can stop it.
func Control(tenant, agentID string) Topic { return Topic{KindLive, tenant, controlPrefix + agentID} }

// controlPrefix distinguishes control topics from those of conversations; no contextID may begin with it.
const controlPrefix = "agent:"
