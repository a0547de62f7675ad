// Package cortex is the orchestrator: it takes users' messages and agents' results from its inbox, asks an [llm.Decider]
// what to do, sends tasks to agents, and answers. Everything it does follows from the log of a conversation ([storage.Store]),
// so a process can be killed between any two steps, and another continues without losing or repeating anything.
//
// turn.go shows from top to bottom how an event is handled: load (load.go), plan (package conversation: Plan), judge what it says of tasks
// (judge.go), apply the event (Begin), decide (package decide), append (the store), apply the decision (Finish), dispatch (dispatch.go; a task
// passes through queued.go and taskqueue.go). An event that was handled before ends in repeat (turn.go), one that changes nothing in ignore (dispatch.go), one
// that is refused in bar (refusal.go). Events that the transport gives up are handled in givenup.go, those of the control topic in control.go.
// A table in transport/conversation.go lists what travels between users, Cortex and agents.
//
// The packages below:
//
//   - conversation: what a log means, what an event does to it, and what follows; without I/O or a clock.
//   - decide: the way to a decision: rules, limits, the decider, and which parts of its answer are valid. decide/catalog: which agents a prompt
//     shows.
//   - cache: what is kept in memory and may be lost.
//   - budget: what is spent on models. learn: what delegations teach the router.
//   - storage: the contract of a store; memstore and jetstore are stores, storetest is their suite.
//   - registry: which agents are present. router: which agents fit. policy: which agents may be asked.
//
// # Words
//
//   - conversation: what people see; context id: its name in the A2A protocol.
//   - life: of a conversation, an id that distinguishes it from an erased one with the same context id.
//   - owner: of a conversation, the sender of its first message; of a partition, the process that handles its conversations.
//   - event: what comes from the transport. Entry: what the log keeps of it, with what was decided. Effect: an event that an entry wants sent.
//   - turn: from a message to its answer. Step: one decision to delegate within it. Task: one delegation. Attempt: one try at a task.
//     Delivery: one time that the transport delivers an event.
//   - chain: a turn, and all turns that agents ask for in the course of it. Requester: the sender of the message that began it.
//   - fold: a conversation as the result of applying the entries of its log one after the other; package cache keeps some.
//   - window: the latest answered turns, which prompts show. Older ones are summarised or left out.
//   - file: a part of a message or a result that is not its text. Key: a file's name within its conversation, such as f1.
//   - partition: a part of the conversations, which one process owns at a time. Epoch: a number that grows with each owner.
//   - cause: of an entry, the event that it was made for. Along: of a task, the files that are sent with it to its agent.
//   - direct request: a message that names its agent; no model decides.
//   - candidates: the agents that a turn may give work to. Shortlist: those that its prompt shows, when they are too many.
//   - in-flight limit: how much may be under way at a time: tasks of an agent (at_once of the policy), undecided turns, decisions. Separate limits
//     are max_concurrent_tasks of a card, the tasks that its agent takes at a time, and MaxParallel, the delegations of one decision.
//   - admit: to count tasks or requests against their limits, or to say which limit is full. Take: to remove something and return it.
//   - learner: the part that remembers which agents were good at what. Evidence: one such case.
//   - spend log: what was spent on models each day, which a store keeps beside the logs.
//   - settled: of a task, over, or waiting for the user. When none of a turn's tasks is with its agent (Outstanding), the next decision is made.
//   - question: what an agent asks the user in a task, whose phase is then Asking; or what Cortex asks before it gives
//     out tasks, whose phase is then Held. The yes to the latter is called confirm in a policy, and Consent in an entry.
//   - refused: of a message, answered with a text but without an entry or a dead letter (bar). A message that has an entry, but cannot be
//     decided, has a Failure there. A decision of kind refuse is an answer like others.
//   - rejected: of a task, by its agent or the transport. Rejected of an entry is why a result is not accepted: its task fails.
//   - given up: of an event: it cannot be handled, ever or after many attempts, and is a dead letter. Of an attempt: the task is tried again.
//   - withdraw, recall: to remove a task that was stopped from its agent's inbox, or from the queue before it.
//   - come second: of an entry: its append conflicted, since another entry was faster. Lost: such an entry, and the fold that it was made for.
//   - note: a small value that a store keeps beside the logs, under a kind and a key, such as evidence or a refusal.
//   - gone: of an agent, that no instance of it is left.
//   - gateway: the part of transport/nats that checks what others may do when there are keys. Caller: an agent or a person that uses it.
//   - bridge: a package below bridge, by which others ask Cortex in a protocol of theirs; they may be its agents by it, too.
//
// # Where something new goes
//
//   - a kind of decision: a row of the table in llm/kind.go, and its effect in conversation (Finish). Deadlines are those of tasks, and one that is no
//     task's is ignored. So a kind that keeps its turn open for something else, such as a time, changes all that reads deadlines there (Outstanding,
//     NextDeadline, Effects, Plan, Begin): otherwise nothing wakes the turn.
//   - a store: a package beside memstore, which passes storetest. A transport: one beside transport/memory, which passes transporttest. A program
//     has them by app.Options. Those of Cortex itself come from internal/home, with their server.
//   - a protocol of agents that Cortex calls: a package beside agents/a2a and agents/mcp, an agents.Executor, tested with agentstest.
//   - a protocol of others who call Cortex: a package beside bridge/a2a and bridge/mcp, on package client. Where the same programs are agents as well,
//     one package is both, as bridge/agenthub is.
//   - what runs beside a service, such as either of these: a role.Role (package app/role), as bridge/agenthub has. A program has it by app.Options, and
//     Cortex itself by main.go. The packages for A2A and MCP are no model for this: internal/cli starts them.
//   - a field of a card: agentcard/spec.go and params.go. The router reads A2A cards and no Spec: what a Spec is to change in the ranking is an option
//     of its Search, which decide/catalog calls.
//
// The end of DESIGN.md in this folder says what else has to change; it also argues each decision and names the alternatives.
package cortex
