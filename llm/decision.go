package llm

import (
	"context"
	"encoding/json"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Decider chooses what to do next in a turn. It is safe for concurrent use.
type Decider interface {
	// Decide returns the decision for t. While the words for the user are being written, stream is called with each
	// piece, from the same goroutine; every call of Decide starts anew, and [Decision].Say is what counts in the end.
	// stream may be nil. Decide blocks, for as long as a model takes; it ends with ctx. The decision passed [Check].
	// Errors wrap one of this package's, or ctx's.
	Decide(ctx context.Context, t *Turn, stream func(text string)) (*Decision, error)
}

// Turn is what a Decider is shown of a turn, to decide about its next step. It is not retained and not changed. The turn itself is a
// conversation.Turn of package cortex/conversation.
type Turn struct {
	prompt.Input
	Tenant    string
	ContextID string // the conversation
	ID        string // of the turn: what transport.TurnID gives; in old logs the id of the user's message
	// Budget is what the decision may spend.
	Budget Budget
	// Search returns the agents that fit words best, of all that may be given work, the best first; at most 20. nil when there
	// is nothing that searches. It does not block, and is safe for concurrent use.
	Search func(words string) []Found
	// Lookup returns an agent that may be given work although it is not one of Agents, for which there may be no room. nil when
	// Agents are all there are. It does not block, and is safe for concurrent use.
	Lookup func(id string) (prompt.Agent, bool)
	// Available are the keys of the files that can go along with a delegation.
	Available []string
	// Open returns the bytes of an image that the prompt names. nil when there is nothing that reads files. It blocks, and is safe for
	// concurrent use.
	Open func(ctx context.Context, key string) ([]byte, error)
	// Veto returns why an agent may not be given work for one of its skills, or for none that is named, in half a sentence that
	// begins with a verb; "" when it may. nil when everything is allowed. It does not block, and is safe for concurrent use.
	Veto func(agent, skill string) string
}

// Found is an agent that a search found.
type Found struct {
	prompt.Agent
	Score  float64  // how likely it fits, from 0 to 1
	Fits   bool     // the score is high enough
	Skills []string // ids of the skills that fit best, the best first
}

// Budget bounds what is spent. A field that is 0 bounds nothing.
type Budget struct {
	Tokens int     `json:"tokens,omitempty"` // read and written
	Cost   float64 `json:"cost,omitempty"`   // see [Usage].Cost
}

// Compactor is implemented by a Decider whose model has a window that a long conversation does not fit into.
type Compactor interface {
	// Compact returns nil when t fits. Else, or with force, it has the older half of t.History summarised, together with
	// t.Summary, and returns the summary; the caller puts it in the place of what it stands for. When the model cannot do
	// it, the summary has no Text, and the error says why: then those turns are left out. When a later call may do better, it is
	// nil beside the error: nothing is left out, and what does not fit is not decided. A t that does not fit without its History
	// either cannot be made to fit: nil and [ErrTooLong]. It blocks for as long as a model takes.
	Compact(ctx context.Context, t *Turn, force bool) (*Summary, error)
}

// Summary stands for the oldest turns of a conversation.
type Summary struct {
	Text  string `json:"text,omitempty"`
	Turns int    `json:"turns"` // how many turns of Input.History it stands for; those of an earlier summary are not counted
	Model string `json:"model,omitempty"`
	Usage Usage  `json:"usage,omitzero"`
}

// Decision is what was chosen. Its first four fields are what a model writes, in this order.
type Decision struct {
	Kind        Kind         `json:"kind"`
	Say         string       `json:"say"`
	Delegations []Delegation `json:"delegations,omitempty"`
	Reason      string       `json:"reason,omitempty"` // why, in a sentence; shown by /why, not to the user

	Model   string `json:"model,omitempty"`   // what decided
	Usage   Usage  `json:"usage,omitzero"`    // over all calls
	Repairs int    `json:"repairs,omitempty"` // how often the model had to be corrected
	// Searches are the words for which the model looked for agents before it decided.
	Searches []string `json:"searches,omitempty"`
}

// Delegation is a piece of work for one agent.
type Delegation struct {
	// ID names the delegation within its decision, for DependsOn; or it is the id of a task in Turn.Waiting, which
	// this continues with the user's reply.
	ID string `json:"id"`
	// Agent is the id of one of Turn.Agents.
	Agent string `json:"agent"`
	// Skill is the id of one of its skills, or empty.
	Skill string `json:"skill,omitempty"`
	// Task is what the agent is to do, in words that it understands without the conversation.
	Task string `json:"task"`
	// Input is structured input for the skill, where the skill has some.
	Input json.RawMessage `json:"input,omitempty"`
	// Files are the keys of the files that go along, see [prompt.File]: of the user's message or of any other, and of results. nil: those
	// of the user's message. Those of the results in DependsOn go along in any case.
	Files []string `json:"files,omitzero"`
	// DependsOn are the IDs of delegations of this decision whose results this one needs.
	DependsOn []string `json:"depends_on,omitempty"`
}
