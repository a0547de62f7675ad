// Package agents is the kit that every agent in Go is built with, and the small agents that come with Cortex.
//
// An agent is a card that says what it can do, and a [Handler] that does it. [Serve] joins them to Cortex: it announces
// the card and keeps it announced, takes tasks, runs the handler, publishes progress and outputs while it works, and sends
// exactly one result per task. It does what is tedious to get right: results survive a lost connection, a task that was
// cut off by a shutdown goes to another instance, one that keeps killing its agent is given up, cancellations and deadlines
// end the handler's context, progress moves the deadline, and a task that Cortex asks for once more is not done twice at a time.
//
// There are three ways to say what an agent does: a [Handler] is a function from a [Task] to a [Result]; [Func] is one with types, whose schemas
// are inferred, put into the card and checked; an [Executor] yields A2A events, as what speaks another protocol has them. All of them can show
// progress ([Task.Progress]), the text of the result as it is made ([Task.Stream]) and outputs in pieces ([Task.Update]), ask the user
// something ([InputRequired], [AuthRequired]), and ask Cortex or another agent ([Task.Ask]).
//
// A [Host] serves thousands of agents in one process. Package agentstest runs an agent in a test in three lines.
//
// [Exec] makes an agent of any program in any language. [Lookup] finds the agents that are built in. A card can be read
// from a file with [LoadCard].
package agents
