// Package agents is the kit that every agent in Go is built with, and the small agents that come with Cortex.
//
// An agent is a card that says what it can do, and a [Handler] that does it. [Serve] joins them to Cortex: it announces
// the card and keeps it announced, takes tasks, runs the handler, publishes progress and outputs while it works, and sends
// exactly one result per task. It does what is tedious to get right: results survive a lost connection, a task that was
// cut off by a shutdown goes to another instance, one that keeps killing its agent is given up, cancellations and deadlines
// end the handler's context, progress moves the deadline, and a task that Cortex asks for once more is not done twice at a time.
//
// [Exec] makes an agent of any program in any language. [Lookup] finds the agents that are built in. A card can be read
// from a file with [LoadCard].
package agents
