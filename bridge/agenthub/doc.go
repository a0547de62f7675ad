// Package agenthub has the programs of AgentHub (github.com/owulveryck/agenthub) work with Cortex as they are: its agents are agents of Cortex, and who
// chats there speaks to Cortex. [Role] is the role of `cortex serve` for that;
// a program of one's own adds it to app.Options.Roles. The wire is gRPC without keys and without encryption, see package hubpb.
//
// # Cortex is the hub
//
// With --agenthub, programs connect to Cortex in place of AgentHub's broker. What the hub answers, refuses and passes on is what that does, with a few
// differences that no program notices for the worse: events stay in order, nobody gets what they have sent to all, ListTasks has pages, and a
// subscriber that is behind is waited for longer.
//
//	an agent's card          a card, with the agent's name, or --agenthub-prefix before it
//	a skill's name           the skill's dispatch key; its id is made of the name, since programs number their skills anew at each start
//	a subscription           presence: an agent is there as long as it is subscribed, and for 30 s more
//	a task of Cortex         an event with a task, for one of the agent's subscriptions
//	its final status         how the task has ended; a completed one waits for its artifact for 2 s
//	an artifact              an artifact, which may come before the status or behind it
//	a message to cortex      a turn of user:agenthub/NAME, in a conversation that only this peer and context have
//	a message to an agent    of Cortex that is none of the hub's: a direct request, which the agent answers
//	all other messages       passed on between the programs, as tasks and status updates are: none of Cortex's business
//
// An agent whose name somebody else has in Cortex, or takes later for an agent that announces itself, is left out, with words in the log and for the
// agent, and let in when the name is free. So is one with the name of an agent that has keys and is away. The name
// cortex is Cortex's own: to subscribe as it fails with AlreadyExists, so that nobody answers twice. A chat_responder that is there answers the messages to
// it; without one Cortex does.
//
// # What is promised
//
// The success of a call is the only acknowledgement that there is. A message to Cortex is accepted when it is stored, and then it is answered, also when
// Cortex is killed meanwhile. The programs bear exactly one chat_response to a message, and wait for it for 30 s: who gets no answer within 25 s is told that it
// takes longer, and the answer comes as a task_result. So does one for a program that has subscribed since it asked. An answer that nobody takes is dropped
// after ten minutes, or when there is no room for another message; the conversation has it. A message that is sent again, with the same id, context and text, is the same turn, and is
// answered again only if whoever got the answer has gone.
//
// An answer is sent at most once: it is lost if Cortex or the connection ends just then, and whoever sends the message again gets it.
//
// A task is given at least once: again if the subscription ended that it was sent on. The agent may do it twice; the first end counts. A
// canceled task is told to the agent, and AgentHub's library does not heed that.
//
// # Cortex is a client of a broker
//
// With --agenthub-broker, Cortex is one of the clients of a broker that runs elsewhere, and connects again when that is away. That broker keeps
// nothing, loses what a subscriber does not take within five seconds, and has no list of agents: Cortex knows those that register while it is
// connected, for as long as the broker is. A task that gets lost runs into its deadline, and is sent again only if Cortex tries again. A message that Cortex cannot take now is
// tried again for 20 s. Those that are refused, as when peers ask too much at once, hold up no others meanwhile: they take 8 MiB together, and beyond that a peer is told at once
// that its message is not answered.
package agenthub
