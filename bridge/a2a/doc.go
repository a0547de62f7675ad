// Package a2a lets A2A clients ask Cortex: it is an A2A 1.0 server with the bindings JSON-RPC and HTTP+JSON on one port ([Server.Handler]), used by
// `cortex serve --a2a`. The SDK of A2A gives the transports; tasks are those of Cortex. A [Server] is made of a [client.Client], as those of the other
// protocols are.
//
// # What is what
//
// Cortex itself is the agent at "/", and each agent that can be given work is one at "/agents/ID/", where no model stands between: a direct request.
// Each has its card. What A2A calls a context is a conversation, and a task is a turn in it: a message of the client, and its answer. A message that
// names a task that wants input begins another turn, of the same task.
//
//	SUBMITTED        the message is in Cortex's inbox, at any replica
//	WORKING          a turn of the task is open
//	INPUT_REQUIRED   its turns are answered, and an agent waits for a reply, or work for a yes
//	COMPLETED        the last turn is answered; the answer is the artifact "answer"
//	FAILED           it is answered with a failure
//	CANCELED         it was canceled, or nobody answered its question, in time or in this task
//	REJECTED         the message was refused, and is in no log
//
// # Tasks are not stored
//
// The log of the conversation says all of this, so a task has no record of its own: its state is computed when somebody asks, by any replica, after any
// restart, and is gone when the conversation is. The id of a task says where it is: the conversation and the message. Both follow from who asks: the
// id of another's task leads to a conversation that does not exist.
//
// A context id that the client chose stands for a conversation of its own, never for another's of the same name.
//
// # The same message twice
//
// A message is sent again safely, for 24 hours, when it names a context or a task, or has a header Idempotency-Key: with the same message id and the same
// parts it is the same turn. Without, each message is a task: clients exist that give all their messages the same id.
//
// # A yes, and other replies
//
// A task that wants input says what for in the words of its status, and a message for the task replies in words. A client that names the extension
// [HumanInTheLoop] gets the question as data as well, and may reply in data: with the ids of what it approves, or with an answer to each question. Such a
// reply counts for that question only. One that does not fit is refused, and the question stays open.
//
// # Push notifications
//
// With [Config.Push], clients name URLs that are told what becomes of a task, and [Server.Push] tells them. Of what is told nothing is stored either: it
// follows from the log, a change of the state at a time, with the artifacts before the end. A config is a note, with the place in the log up to which its
// receiver has taken everything. So an event is posted at least once, in order, with an id that is the same each time.
//
// # Who asks
//
// Whoever the bearer token names, a person or an agent. Where Cortex has no keys, programs on this machine need none, and others are refused. Only cards are for everybody.
package a2a
