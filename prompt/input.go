package prompt

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Input is everything a prompt may speak of. The texts in it come from users, agents and their cards: strangers. It is
// plain data, read and not changed by this package.
type Input struct {
	// Agents that may be given work now, in the order of their ids.
	Agents []Agent
	// Listed are the agents that the instructions list: those that were there when the conversation, or what is left of it,
	// began. They stay as they were, so that providers' prompt caches hit; what changed since then stands in the Updates.
	// Of a choice they are excerpts, where Agents have the whole cards. nil lists Agents.
	Listed []Agent
	// Choice says that what is listed and told is a choice out of more agents, and that the model may search for others. It
	// stays as it is for as long as Listed does, since the instructions depend on it.
	Choice bool
	// More is how many agents can be given work beside Agents.
	More int
	// Unavailable are agents that cannot be given work at the moment, although they are there.
	Unavailable []Unavailable
	// Summary is what a model wrote of the turns before History; empty when there is none.
	Summary string
	// History holds the conversation before this turn, oldest first. It only ever grows at its end, so that providers'
	// prompt caches hit.
	History []Turn
	// Omitted is the number of turns before History that are left out, and not in Summary either.
	Omitted int
	// Waiting are tasks of earlier turns whose agent waits for the user's reply.
	Waiting []Task
	// User is what the user said, the message that this turn answers.
	User string
	// Files came with what the user said.
	Files []File
	// Update is what had changed among the agents when User said it.
	Update Update
	// Steps are what was decided and done so far in this turn, oldest first; empty at the first decision.
	Steps []Step
	// Now is the time of the decision.
	Now time.Time
	// Last says that this decision must answer the user: no step is left to delegate.
	Last bool
	// MaxParallel is how many delegations one decision may make.
	MaxParallel int
}

// Agent is an agent as the prompt shows it.
type Agent struct {
	ID   string         // its address; what a delegation names
	Card *a2a.AgentCard // never nil
	Seen bool           // false: well known, but nothing of it runs
	// Of is a digest of the card that Card is an excerpt of; empty when Card is all that prompts can show. Two excerpts of one
	// card, made for different requests, say the same of an agent.
	Of string `json:",omitempty"`
	// More is how many skills Card leaves out.
	More int `json:",omitempty"`
	// Inputs are the JSON Schemas, as prompts show them, of the structured input that skills take, by the ids of the skills; nil:
	// what Card says.
	Inputs map[string]string `json:",omitempty"`
}

// Unavailable says why an agent cannot be given work at the moment, in half a sentence: "it has 2 of 2 tasks under way".
type Unavailable struct{ ID, Why string }

// Turn is an earlier turn of the conversation: what the user said, what was done, and the answer.
type Turn struct {
	User   string
	Files  []File `json:",omitempty"` // that came with it
	Update Update
	Steps  []Step
	Kind   string // of the decision that answered, as llm.Kind has it; "" is "respond"
	Answer string
}

// Update is how the agents changed since the message before.
type Update struct {
	Joined []Agent  `json:",omitempty"` // came, or are not what they were
	Left   []string `json:",omitempty"` // ids of those that cannot be given work any more
}

// Step is one decision that delegated work, with what came of it.
type Step struct {
	Say   string // what the decision said while delegating; may be empty
	Tasks []Task
	// Update is what had changed among the agents when the results were shown.
	Update Update
}

// Task is one delegation and its outcome.
type Task struct {
	ID        a2a.TaskID
	Agent     string          // agent id
	Skill     string          // skill id; may be empty
	Text      string          // what the agent was asked to do
	Input     json.RawMessage `json:",omitempty"`
	Along     []string        `json:"Given,omitzero"` // keys of the files that the decision gave to it; nil: those of the user's message
	DependsOn []a2a.TaskID    `json:",omitempty"`     // tasks of the same step whose results it got
	State     a2a.TaskState
	Result    string // the agent's words: its result, its question, or the reason why it failed
	Artifacts []Artifact
	Files     []File `json:",omitempty"` // that came with the result
}

// File is a file of the conversation.
type File struct {
	Key  string // by which a delegation names it, such as f1
	Name string // what its sender calls it; may be empty
	Type string // its media type
	Size int64  // in bytes
	Head string `json:",omitempty"` // the beginning of a text
}

// Artifact is a named output of a task, as text.
type Artifact struct {
	Name, Text string
}
