// Package repl is the interface for people: the chat on a terminal, and single messages through a pipe.
//
// [Run] is the chat, on a [client.Client]; [Pipe] and [Ask] do the same for standard streams. Everything that is not on the transport, such as the
// log and the registry, comes from the functions of a [Backend], each of which may be missing.
//
// Texts of agents, models and cards are not trusted: everything that is printed passes [Sanitize].
package repl
