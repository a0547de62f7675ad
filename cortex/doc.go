// Package cortex is the orchestrator: it takes users' messages and agents' results from its inbox, asks an [llm.Decider]
// what to do, sends tasks to agents, and answers. Everything it does follows from the log of a conversation ([Store]),
// so that a process can be killed between any two steps and another goes on without losing or repeating anything.
//
// DESIGN.md in this folder argues each decision and names the alternatives.
package cortex
