package transport

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// What travels, in the order of one turn. Message and task ids are derived from the conversation's log, so that sending
// one again is harmless.
//
//	from → topic              payload                     meaning
//	user → Inbox(cortex)      Message, role user          what the user says; Event.ID = Message.ID, see [TurnID]
//	cortex → Live(context)    Delta                       the answer while it is written
//	cortex → Inbox(agent)     Message, role user          a task: TaskID set, metadata as below; by way of Inbox([Queue]) when it has to wait
//	cortex → Live(context)    Task, SUBMITTED             the same task was given; History[0] is its message
//	agent → Live(context)     TaskStatusUpdate, WORKING   progress; Status.Message has the words
//	agent → Live(context)     TaskArtifactUpdate          an output while it is made, or, as [TextArtifact], the text of the result
//	agent → Inbox(cortex)     Task                        the result (terminal), or a question (INPUT_REQUIRED)
//	cortex → Live(context)    TaskStatusUpdate            the task is settled: state and result as logged
//	cortex → Live(context)    Message, role agent         the answer; ends the turn. To Inbox(From) and Control(From) when an agent asked
//	cortex → Inbox(cortex)    Deadline                    the conversation's timer; or the receipt of a question for a yes
//	user → Inbox(cortex) and Control(cortex)   Cancel     stop a turn or a task
//	user → Inbox(cortex)      Share                       others may speak in the conversation, or no longer
//	cortex → Control(agent)   Cancel, TaskID set          stop that task
//
// The keys of metadata in these messages. The first five are those of the A2A agents that Cortex grew up with.
const (
	MetaTaskType        = "task_type"           // task: the skill's id
	MetaAgentID         = "agent_id"            // task: the agent it is for; result: who made it
	MetaTaskID          = "task_id"             // task and result: the task's id
	MetaOriginalMessage = "original_message_id" // result: the id of the task's message
	MetaCreatedAt       = "created_at"          // result: RFC 3339
	MetaRequester       = "requester"           // task and answer: who asked Cortex
	MetaUserText        = "user_text"           // task: the user's own words
	MetaDeadline        = "deadline"            // task: RFC 3339 with nanoseconds; a result after it is ignored
	MetaLatest          = "latest_deadline"     // task: until when progress may move the deadline; missing: it stays
	MetaAttempt         = "attempt"             // task: which attempt at it this is, a number from 1
	MetaContinued       = "continued"           // task: true when it goes on after the agent's question
	MetaHops            = "hops"                // task: how many agents have handed the request on, a number
	MetaAncestors       = "ancestors"           // task: their ids, a list of strings
	MetaFile            = "file"                // a part that is a file, from Cortex: its key in the conversation
	MetaTurn            = "turn_id"             // everything of a turn on Live: its id, see [TurnID]
	MetaMessage         = "message_id"          // answer: the id of the message that it answers, which its requester chose
	MetaDecision        = "decision"            // answer: the kind of decision that gave it
	MetaReason          = "reason"              // answer and delegation: why
	MetaModel           = "model"               // answer: what decided
	MetaFailed          = "failed"              // answer: true when it reports a failure
	MetaForAgent        = "cortex_agent"        // what the user says: the agent that it is for, see [Direct]
	MetaForSkill        = "cortex_skill"        // beside it: the skill
)

// TextArtifact is the id of what an agent shows as an artifact, on Live only, and is none: the text of its result, piece by piece while it
// is made.
const TextArtifact a2a.ArtifactID = "text"

// Text returns the text of parts, separated by newlines.
func Text(parts a2a.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		if p == nil {
			continue
		}
		if t, ok := p.Content.(a2a.Text); ok {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(string(t))
		}
	}
	return b.String()
}

// MetaString returns the string under key, or "" when there is none.
func MetaString(m a2a.MetadataCarrier, key string) string {
	s, _ := m.Meta()[key].(string)
	return s
}
