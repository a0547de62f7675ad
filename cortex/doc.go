// Package cortex is the orchestrator: it takes users' messages and agents' results from its inbox, asks an [llm.Decider]
// what to do, sends tasks to agents, and answers. Everything it does follows from the log of a conversation ([storage.Store]),
// so that a process can be killed between any two steps and another goes on without losing or repeating anything.
//
// The way of an event is in turn.go, from top to bottom: load (load.go), plan and apply the event (package conversation: Plan, Begin), decide
// (package decide), append (the store), apply the decision (package conversation: Finish), dispatch (dispatch.go; a task goes by way of queued.go
// and taskqueue.go). An event that came before ends in repeat (turn.go), one that changes nothing in ignore (dispatch.go), one that is refused in
// bar (refusal.go). What the transport gives up ends in givenup.go; what comes on the control topic is in control.go. What travels between
// users, Cortex and agents is a table in transport/conversation.go.
//
// The packages below:
//
//   - conversation: what a log means, what an event does to it, and what follows; without I/O or a clock.
//   - decide: the way to a decision: rules, limits, the decider, what of its answer holds. decide/catalog: which agents a prompt shows.
//   - cache: what is kept in memory and may be lost.
//   - budget: what is spent on models. learn: what delegations teach the router.
//   - storage: what is wanted of a store; memstore and jetstore are stores, storetest is their suite.
//   - registry: who is there. router: who fits. policy: who may.
//
// # Words
//
//   - conversation: what people see; context id: its name in the A2A protocol.
//   - life: of a conversation, what tells it from an earlier one with the same context id that was erased.
//   - owner: of a conversation, who sent its first message; of a partition, the process that handles its conversations.
//   - event: what comes from the transport. Entry: what the log keeps of it, with what was decided. Effect: what an entry wants sent.
//   - turn: from a message to its answer. Step: one decision to delegate within it. Task: one delegation. Attempt: one try at a task.
//     Delivery: one time that the transport hands an event over.
//   - chain: a turn, and all turns that agents ask for in the course of it. Requester: who sent the message that began it.
//   - fold: a conversation as the entries of its log make it, one applied after the other; package cache keeps some.
//   - window: the latest answered turns, which prompts show. Older ones are summarised or left out.
//   - file: a part of a message or a result that is not its text. Key: a file's name within its conversation, such as f1.
//   - partition: a part of the conversations, which one process owns at a time. Epoch: a number that grows with each owner.
//   - cause: of an entry, the event that it was made for. Along: of a task, the files that go with it to its agent.
//   - direct request: a message that names its agent; no model decides.
//   - candidates: the agents that a turn may give work to. Shortlist: those that its prompt shows, when they are too many.
//   - in-flight limit: how much may be under way at a time: tasks of an agent (at_once of the policy), undecided turns, decisions. Others are
//     limits of their own: max_concurrent_tasks of a card is what its agent takes at a time, and MaxParallel how many delegations one decision may have.
//   - admit: to count tasks or requests against their limits, or to say which limit is full. Take: to remove something and return it.
//   - learner: what keeps in mind which agents were good for what. Evidence: one such case.
//   - spend log: what was spent on models each day, which a store keeps beside the logs.
//   - settled: of a task, over, or waiting for the user. When none of a turn's tasks is with its agent (Outstanding), the next decision is made.
//   - question: what an agent asks the user in a task, whose phase is then Asking (Waiting, in code); or what Cortex asks before it gives
//     out tasks, whose phase is then Held (Asked, in code). That yes is called confirm in a policy, and Consent in an entry.
//   - refused: of a message, answered in words without an entry, and no dead letter (bar). A message that has an entry, and about which nothing can
//     be decided, has a Failure there. A decision of kind refuse is an answer like others.
//   - rejected: of a task, by its agent or the transport. Rejected of an entry is why a result breaks the schema promised for it: its task fails.
//   - given up: of an event: it cannot be handled, ever or after many attempts, and is a dead letter. Of an attempt: the task is tried again.
//   - withdraw, recall: to take a task that was stopped out of its agent's inbox, or out of the queue before it.
//   - come second: of an entry: its append conflicted, since another entry was faster. Lost: such an entry, and the fold that it was made for.
//   - note: a small value that a store keeps beside the logs, under a kind and a key, such as evidence or a refusal.
//   - gone: of an agent, that no instance of it is left.
//   - gateway: the part of transport/nats that checks what others may do when there are keys. Caller: an agent or a person before it.
//     Bridge: what translates the protocol of others.
//
// A new kind of decision begins in llm/kind.go, a new store beside memstore, a new transport beside package transport/memory, a new protocol of
// others in a folder bridge, of which there is none yet, on packages client and agents, a new field of a card in agentcard/spec.go. What else has
// to change is said at the end of DESIGN.md in this folder, which also argues each decision and names the alternatives.
package cortex
