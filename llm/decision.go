package llm

import (
	"context"
	"encoding/json"

	"github.com/cortex-orchestrator/cortex/prompt"
)

// Decider chooses the next step of a turn. It is safe for concurrent use.
type Decider interface {
	// Decide returns the decision for t. While the text for the user is being written, it calls stream with each piece, from the same goroutine. Every
	// call of Decide starts anew, and [Decision].Say is what counts in the end. stream may be nil. Decide blocks for as long as a model takes, until ctx
	// ends. The decision has passed [Check]. Errors wrap one of this package's, or ctx's.
	Decide(ctx context.Context, t *Turn, stream func(text string)) (*Decision, error)
}

// Computing is implemented by Deciders that may need no model.
type Computing interface {
	// Computes reports whether Decide and Compact only compute: they wait for nobody, and return within milliseconds whatever they are shown. Then they
	// are called in the goroutine of their turn, since changing it takes longer than they do. They cannot be left behind, as a call of a model can that
	// does not heed its context.
	Computes() bool
}

// Turn is what a Decider is shown of a turn to decide about its next step. The Decider neither retains nor modifies it. The turn itself is a
// conversation.Turn of package cortex/conversation.
type Turn struct {
	prompt.Input
	Tenant    string
	ContextID string // the conversation
	ID        string // of the turn: see transport.TurnID; in old logs the id of the user's message
	// Budget bounds the cost of the decision.
	Budget Budget
	// Search returns the agents that fit words best, of all that may be given work, the best first; at most 20. It is nil when there is no search. It
	// does not block, and is safe for concurrent use.
	Search func(words string) []Found
	// Lookup returns an agent that may be given work, including those for which Agents has no room. It is nil when Agents has all. It does not block,
	// and is safe for concurrent use.
	Lookup func(id string) (prompt.Agent, bool)
	// Available are the keys of the files that can go with a delegation. The results in the Input can, too; see [prompt.Task.Key].
	Available []string
	// Open returns the content of a file that the prompt names; that of one with more than limit bytes is an error. It is nil when files cannot be read. It
	// blocks, and is safe for concurrent use.
	Open func(ctx context.Context, key string, limit int64) ([]byte, error)
	// Veto returns why an agent may not be given work for one of its skills, or for an unspecified one, in a clause that begins with a verb; "" when it
	// may. It is nil when everything is allowed. It does not block, and is safe for concurrent use.
	Veto func(agent, skill string) string

	made *made // of Compact, for Decide
}

// made is the request for a decision about a turn, and its prompt.
type made struct {
	by      *decider
	request *Request
	prompt  *prompt.Prompt
}

// Found is a result of a search for agents.
type Found struct {
	prompt.Agent
	Score  float64  // the likelihood that it fits, from 0 to 1
	Fits   bool     // whether the score is high enough
	Skills []string // ids of the skills that fit best, the best first
}

// Budget bounds costs. A zero field is no bound.
type Budget struct {
	Tokens int     `json:"tokens,omitempty"` // read and written
	Cost   float64 `json:"cost,omitempty"`   // see [Usage].Cost
}

// Compactor is implemented by Deciders whose model has a limited context window.
type Compactor interface {
	// Compact returns nil when t fits, and keeps what it made for a Decide with the same t, which the caller does not change. Otherwise, or with force, it summarises t.Summary and the older half of t.History, and returns the summary, with
	// which the caller replaces them. When the model cannot summarise them, it returns a summary without Text and an error with the reason: the caller
	// leaves these turns out. When a later call may succeed, it returns a nil summary and an error: nothing is left out, and a turn that does not fit is
	// not decided. When t does not fit even without its History, it returns nil and [ErrTooLong]. It blocks for as long as a model takes.
	Compact(ctx context.Context, t *Turn, force bool) (*Summary, error)
}

// Summary replaces the oldest turns of a conversation.
type Summary struct {
	Text  string `json:"text,omitempty"`
	Turns int    `json:"turns"` // how many turns of Input.History it replaces, not counting those of an earlier summary
	Model string `json:"model,omitempty"`
	Usage Usage  `json:"usage,omitzero"`
}

// Decision is the decision about a step. The model writes its first four fields, in this order.
type Decision struct {
	Kind        Kind         `json:"kind"`
	Say         string       `json:"say"`
	Delegations []Delegation `json:"delegations,omitempty"`
	Reason      string       `json:"reason,omitempty"` // why, in a sentence; shown by /why, not in the answer

	Model   string `json:"model,omitempty"`   // the model that decided
	Usage   Usage  `json:"usage,omitzero"`    // of all calls
	Repairs int    `json:"repairs,omitempty"` // how often the model had to be corrected
	// Searches are the words with which the model searched for agents.
	Searches []string `json:"searches,omitempty"`
	// Reads are the parts of results and files that the model has read.
	Reads []Read `json:"reads,omitempty"`
}

// Read is what a model asks for in order to see more of a text.
type Read struct {
	Key  string `json:"key"`            // of a file, or of a result: see [prompt.Task.Key]
	From int    `json:"from,omitempty"` // the line to begin with; a negative one counts from the end
	Find string `json:"find,omitempty"` // instead of From: text that the lines have
}

// Delegation is work for one agent.
type Delegation struct {
	// ID names the delegation within its decision, for DependsOn; or it is the id of a task in Turn.Waiting, which the delegation continues with the
	// user's reply.
	ID string `json:"id"`
	// Agent is the id of one of Turn.Agents.
	Agent string `json:"agent"`
	// Skill is the id of one of the agent's skills, or empty.
	Skill string `json:"skill,omitempty"`
	// Task is what the agent is to do, in words that can be understood without the conversation.
	Task string `json:"task"`
	// Input is structured input for the skill, if the skill takes any.
	Input json.RawMessage `json:"input,omitempty"`
	// Files are the keys of files that go with the delegation, of the user's messages or of results, see [prompt.File]; and of results whose text goes with
	// it, see [prompt.Task.Key]. nil: the files of the user's message. The files of the results in DependsOn always go with it.
	Files []string `json:"files,omitzero"`
	// DependsOn are the IDs of delegations of this decision whose results this one needs.
	DependsOn []string `json:"depends_on,omitempty"`
}
