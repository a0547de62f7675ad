// Package conversation is the pure core of Cortex: what a conversation is, what an event means to it, and what follows. It has no
// context, no clock, no randomness and no I/O, so that the same log gives the same conversation and the same effects, whoever reads it and
// whenever.
//
// An event goes through three steps:
//
//	Plan(event, now)  what it means: work, or why it is repeated, ignored or refused
//	Apply(entry)      the only thing that changes a Conversation; in two halves, Begin and Finish, between which an orchestrator decides
//	Effects(seq)      what an entry wants sent: tasks, cancellations, the timer, live events, the answer; their ids are derived
//
// A task has one [Phase], whose transitions stand in one table. A Conversation is not safe for concurrent use.
package conversation
