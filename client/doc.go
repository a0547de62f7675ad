// Package client is the asking side of a turn, for all programs that ask Cortex: the chat, `cortex ask`, bridges, a web
// page. It needs only a transport. With a reader of conversation logs ([ReadLog]) a turn also survives lost connections and restarts of Cortex.
//
// [Client.Ask] sends a message and yields the events of its turn, the answer last. A program that cannot wait that long, or may be restarted,
// uses its parts: [Client.Send] sends a message and returns the [Turn] that it begins, three strings that can be stored; [Client.Watch] yields
// the events of a turn from then on, in this process or another; [Client.Answer] only waits for the answer. A message sent again under the
// same id and by the same sender is the same turn, and is answered once.
//
// A message that Cortex refuses has an answer that says why. [Client.Watch] returns it as well, even if nobody was watching when the message
// was refused.
//
// Package clienttest plays Cortex and its agents, for tests of such programs.
package client
