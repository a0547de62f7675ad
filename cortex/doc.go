// Package cortex is the orchestrator: it takes users' messages and agents' results from its inbox, asks an [llm.Decider]
// what to do, sends tasks to agents, and answers. Everything it does follows from the log of a conversation ([Store]),
// so that a process can be killed between any two steps and another goes on without losing or repeating anything.
//
// The way of an event is in turn.go, from top to bottom: load (load.go, cache.go), plan (package conversation), decide (decide.go), append
// (the Store), apply (package conversation), dispatch (send.go, recall.go).
//
// # Words
//
//   - conversation: what people see; context id: its name in the A2A protocol.
//   - event: what comes from the transport. Entry: what the log keeps of it, with what was decided. Effect: what an entry wants sent.
//   - turn: from a message to its answer. Step: one decision to delegate within it. Task: one delegation. Attempt: one try at a task.
//   - partition: a part of the conversations, which one process owns at a time. Epoch: a number that grows with each owner.
//   - candidates: the agents that a turn may give work to. Shortlist: those that its prompt shows, when they are too many.
//   - learner: what keeps in mind which agents were good for what. Evidence: one such case.
//   - spend log: what was spent on models each day, written down behind the turns.
//   - gone: of an agent, that no instance of it is left.
//
// DESIGN.md in this folder argues each decision and names the alternatives.
package cortex
