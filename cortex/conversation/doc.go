// Package conversation is the pure core of Cortex: what a conversation is, what an event means to it, and what follows. It uses no
// context, clock, randomness or I/O, so the same log always gives the same conversation and the same effects.
//
// An event goes through three steps:
//
//	Plan(event, now)  what the event means: work, or why it is repeated, ignored or refused
//	Apply(entry)      the only way to change a Conversation, in two halves, Begin and Finish, between which the orchestrator decides
//	Effects(seq)      what an entry wants sent: tasks, cancellations, the timer, live events, the answer; their ids are derived
//
// A task has one [Phase]; one table holds its transitions. A Conversation is not safe for concurrent use.
package conversation
