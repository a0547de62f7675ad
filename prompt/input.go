package prompt

import (
	"encoding/json"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Input is the data of a prompt. Its texts come from users, agents and their cards, and are not trusted. This package does not modify it.
type Input struct {
	// Agents that may be given work now, sorted by id.
	Agents []Agent
	// Listed are the agents that the instructions list: those that were present when the conversation, or its remaining part, began. They do not change,
	// so that providers' prompt caches hit; later changes are in the Updates. On a shortlist they are excerpts, while Agents have the whole cards. nil
	// lists Agents.
	Listed []Agent
	// Choice says that the list and its updates are a shortlist, and that the model may search for other agents. It does not change as long as Listed
	// does not, since the instructions depend on it.
	Choice bool
	// More is the number of agents that can be given work and are not in Agents.
	More int
	// Unavailable are agents that are present, but cannot be given work at the moment.
	Unavailable []Unavailable
	// Summary is a model's summary of the turns before History; empty when there is none.
	Summary string
	// History is the conversation before this turn, oldest first. It only grows at its end, so that providers' prompt caches hit.
	History []Turn
	// Omitted is the number of turns before History that are neither shown nor in Summary.
	Omitted int
	// Waiting are tasks of earlier turns that wait for the user's reply.
	Waiting []Task
	// User is the message of the user that this turn answers.
	User string
	// Files are the files of that message.
	Files []File
	// Update has the changes of agents up to that message.
	Update Update
	// Steps are the decisions of this turn and their results so far, oldest first; empty at the first decision.
	Steps []Step
	// Now is the time of the decision.
	Now time.Time
	// TimeZone is the user's, by its IANA name, and Locale a BCP 47 tag. Both have nothing but letters, digits and "/_+-", or are empty when unknown.
	TimeZone, Locale string
	// Last says that this decision must answer the user, since no step is left to delegate.
	Last bool
	// MaxParallel is the maximum number of delegations in one decision.
	MaxParallel int
	// ReasonFirst has the model write its reason before all else, which some models decide better by; the answer is streamed later for it.
	ReasonFirst bool
}

// WaitingID returns the id of the task in Waiting for which name stands in the prompt, such as t1; "" when it stands for none.
func (in *Input) WaitingID(name string) a2a.TaskID {
	for i, t := range in.shownWaiting() {
		if waitingName(i) == name {
			return t.ID
		}
	}
	return ""
}

// shownWaiting returns those of Waiting that the prompt shows.
func (in *Input) shownWaiting() []Task { return in.Waiting[max(0, len(in.Waiting)-maxWaiting):] }

// Agent is an agent in a prompt.
type Agent struct {
	ID   string         // by which a delegation names it
	Card *a2a.AgentCard // never nil
	Seen bool           // false: well known, but without instances
	// Of is a digest of the card that Card is an excerpt of; empty when Card has all that prompts can show. Two excerpts of one card for different
	// requests describe the same agent.
	Of string `json:",omitempty"`
	// More is the number of skills that Card leaves out.
	More int `json:",omitempty"`
	// Inputs are the JSON Schemas, as prompts show them, of the structured input of skills, by skill id; nil: those of Card.
	Inputs map[string]string `json:",omitempty"`
}

// Unavailable says why an agent cannot be given work at the moment, in a clause such as "it has 2 of 2 tasks under way".
type Unavailable struct{ ID, Why string }

// Turn is an earlier turn of the conversation: the user's message, the steps, and the answer.
type Turn struct {
	User   string
	Files  []File `json:",omitempty"` // of the user's message
	Update Update
	Steps  []Step
	Kind   string // of the decision that answered, an llm.Kind; "" stands for "respond"
	Answer string
	Reason string `json:",omitempty"` // of that decision; "" when it is not known
	Kept   *Kept  `json:"-"`          // what Render made of it; nil: it is rendered each time
}

// Update has the changes of agents since the previous message.
type Update struct {
	Joined []Agent  `json:",omitempty"` // new or changed agents
	Left   []string `json:",omitempty"` // ids of agents that cannot be given work any more
}

// Step is a decision to delegate, with the results.
type Step struct {
	Say    string // the text of the decision for the user; may be empty
	Reason string `json:",omitempty"` // of the decision; "" when it is not known
	Tasks  []Task
	// Update has the changes of agents up to when the results were shown.
	Update Update
}

// Task is a delegation and its result.
type Task struct {
	ID        a2a.TaskID
	Agent     string          // agent id
	Skill     string          // skill id; may be empty
	Text      string          // what the agent is asked to do
	Input     json.RawMessage `json:",omitempty"`
	Along     []string        `json:"Given,omitzero"` // keys of the files that the decision gave to it; nil: those of the user's message
	DependsOn []a2a.TaskID    `json:",omitempty"`     // tasks of the same step whose results it gets
	State     a2a.TaskState
	Result    string // the text of the agent: its result, its question, or the reason of its failure
	Artifacts []Artifact
	Files     []File `json:",omitempty"` // of the result

	Sent, Settled time.Time `json:",omitzero"` // when it was given, and when it ended; zero when that is not known
}

// File is a file of the conversation.
type File struct {
	Key  string // by which a delegation names it, such as f1
	Name string // given by the sender; may be empty
	Type string // its media type
	Size int64  // in bytes
	Head string `json:",omitempty"` // the beginning of a text
}

// Artifact is a named output of a task, as text.
type Artifact struct {
	Name, Text string
}
