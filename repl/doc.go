// Package repl is how a person talks to Cortex: the chat on a terminal, and one message through a pipe.
//
// [Run] is the chat, on a [client.Client]; [Pipe] and [Ask] are the same for a program's standard streams. Everything that is not on the transport (the log, the registry) comes in through
// the functions of a [Backend], each of which may be missing.
//
// Texts of agents, models and cards are a stranger's words: all that is printed passes [Sanitize].
package repl
