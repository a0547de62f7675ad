// Package agents is the kit for agents written in Go, with the small agents that come with Cortex.
//
// An agent is a card that says what it can do, and a [Handler] that does it. [Serve] connects them to Cortex: it announces
// the card repeatedly, takes tasks, runs the handler, publishes progress and outputs while it works, and sends
// exactly one result per task. Results survive a lost connection. A task that was cut off by a shutdown goes to another instance, and a
// task that keeps killing its agent is given up. Cancellations and deadlines end the handler's context, progress moves the deadline, and a
// task that Cortex sends again is not done twice at the same time.
//
// There are three ways to write an agent: a [Handler] is a function from a [Task] to a [Result]; [Func] is one with Go types, whose schemas
// are inferred, added to the card and checked; an [Executor] yields A2A events, for agents that speak another protocol. All of them can show
// progress ([Task.Progress]), the text of the result as it is made ([Task.Stream]) and outputs in pieces ([Task.Update]), ask the user
// a question ([InputRequired], [AuthRequired]), and ask Cortex or another agent ([Task.Ask]).
//
// A [Host] serves thousands of agents in one process. Package agentstest runs an agent in a test in three lines.
//
// [Exec] makes an agent of any program in any language. [ExecLines] and [Keep] do so of programs that have more to say, in lines of JSON. [Lookup] finds the built-in agents. [LoadCard] reads a card from a file.
package agents
