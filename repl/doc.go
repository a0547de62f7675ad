// Package repl is how a person talks to Cortex: the chat on a terminal, and one message through a pipe.
//
// [Client] is one turn from the user's side, without any screen: it publishes the message, yields what can be watched,
// and ends with the answer. Gateways and scripts use it directly. [Run] is the chat built on it, [Pipe] and [Ask] are the
// same for a program's standard streams. Everything that is not on the transport (the log, the registry) comes in through
// the functions of a [Backend], each of which may be missing.
//
// Texts of agents, models and cards are a stranger's words: all that is printed passes [Sanitize].
package repl
