package transport

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// The events of a turn, in order. Message and task ids are derived from the conversation's log, so that sending an event again is harmless.
//
//	from → topic              payload                     meaning
//	user → Inbox(cortex)      Message, role user          what the user says; Event.ID = Message.ID, see [TurnID]
//	cortex → Live(context)    Delta                       the answer as it is written
//	cortex → Inbox(agent)     Message, role user          a task: TaskID set, metadata as below; through Inbox([Queue]) when it has to wait
//	cortex → Live(context)    Task, SUBMITTED             the same task was given; History[0] is its message
//	agent → Live(context)     TaskStatusUpdate, WORKING   progress; Status.Message has the text
//	agent → Live(context)     TaskArtifactUpdate          an output as it is made, or, as [TextArtifact], the text of the result
//	agent → Inbox(cortex)     Task                        the result (terminal), or a question (INPUT_REQUIRED)
//	cortex → Live(context)    TaskStatusUpdate            the task is settled: state and result as logged
//	cortex → Live(context)    Message, role agent         the answer; ends the turn. To Inbox(From) and Control(From) when an agent asked by itself
//	cortex → Inbox(cortex)    Deadline                    the conversation's timer; or the receipt of a question for consent
//	user → Inbox(cortex) and Control(cortex)   Cancel     stop a turn or a task
//	user → Inbox(cortex)      Share                       others may speak in the conversation, or no longer
//	cortex → Control(agent)   Cancel, TaskID set          stop that task
//	cortex → Control(agent)   Tender                      what would you do this for?
//	agent → Control(cortex)   Bid                         the answer
//	agent → Inbox(cortex)     Post, ReadBoard             TaskID set: for the board of the task
//	cortex → Control(agent)   Board                       what is on it, or was just posted
//
// The keys of metadata in these messages. The first five are the ones that existing A2A agents use.
const (
	MetaTaskType        = "task_type"           // task: the skill's id
	MetaAgentID         = "agent_id"            // task: the agent it is for; result: the agent that made it
	MetaTaskID          = "task_id"             // task and result: the task's id
	MetaOriginalMessage = "original_message_id" // result: the id of the task's message
	MetaCreatedAt       = "created_at"          // result: RFC 3339
	MetaRequester       = "requester"           // task and answer: the sender of the request to Cortex
	MetaUserText        = "user_text"           // task: the user's message
	MetaDeadline        = "deadline"            // task: RFC 3339 with nanoseconds; a result after it is ignored
	MetaLatest          = "latest_deadline"     // task: the latest time to which progress can move the deadline; missing: it does not move
	MetaAttempt         = "attempt"             // task: the number of this attempt, from 1
	MetaContinued       = "continued"           // task: true when it continues after the agent's question
	MetaBoard           = "cortex_board"        // task: true when its agent may use the board, see [Post]
	MetaHops            = "hops"                // task: how many agents have passed the request on, a number
	MetaAncestors       = "ancestors"           // task: their ids, a list of strings
	MetaFile            = "file"                // part with a file, from Cortex: its key in the conversation
	MetaTurn            = "turn_id"             // every event of a turn on Live: its id, see [TurnID]
	MetaMessage         = "message_id"          // answer: the id of the message that it answers, chosen by its sender
	MetaDecision        = "decision"            // answer: the kind of its decision
	MetaReason          = "reason"              // answer and delegation: why
	MetaModel           = "model"               // answer: what made its decision
	MetaFailed          = "failed"              // answer: true when it reports a failure
	MetaSettled         = "settled"             // answer: when it was given, RFC 3339, if all tasks of the turn had ended; missing when one may wait for the user
	MetaForAgent        = "cortex_agent"        // message of a user: the agent that it is for, see [Direct]
	MetaForSkill        = "cortex_skill"        // with it: the skill
	MetaByClient        = "cortex_by_client"    // message of an agent: true when a client asks for it, which reads the answer from Live and the log
	MetaTimeZone        = "cortex_time_zone"    // message of a user, and task: the user's time zone by its IANA name, such as Europe/Berlin; another text is ignored
	MetaLocale          = "cortex_locale"       // with it: the user's language and country as a BCP 47 tag, such as de-DE
	MetaVerdicts        = "cortex_verdicts"     // part of a result: what the agent's own evaluators say of it, a list of evaluate.Verdict as JSON
	MetaReplyTo         = "cortex_reply_to"     // message of a user: the id of the turn that it replies to, whose question a yes is for; or [ReplyToNone]
	MetaWorked          = "cortex_worked"       // result: how many seconds the agent worked at it, a number: the rest of the time until the result it waited
	MetaOwn             = "cortex_own"          // message of a user: true if it is for a conversation of their own; where senders are authenticated it is refused in another's, also in one that is shared with them
)

// Values of [MetaDecision] that clients need: the answer asks the user something, or says why nothing was done.
const (
	DecisionClarify = "clarify"
	DecisionRefuse  = "refuse"
)

// ReplyToNone is the value of [MetaReplyTo] in a message that is a yes to nothing, whatever its words are.
const ReplyToNone = "none"

// TextArtifact is the id of a special artifact on Live: the text of an agent's result, streamed piece by piece. It is no artifact of the result.
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
