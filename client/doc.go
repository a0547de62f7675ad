// Package client is one side of a turn, for everybody who asks something of Cortex: the chat, `cortex ask`, gateways for the protocols of
// others, a page in a browser. It needs a transport and nothing else; with a way to read the log of conversations ([ReadLog]) a turn also goes on
// after what a connection has lost and after a restart of Cortex.
//
// [Client.Ask] says something and yields what comes of it, the answer last. Whoever cannot wait so long, or may be restarted in between, uses
// its parts: [Client.Send] says something and returns the [Turn] that this begins, which is three words that can be kept anywhere;
// [Client.Watch] yields what comes of a turn from then on, in this process or another one; [Client.Answer] waits for its end only. What is sent
// again under the same id and by the same sender is the same turn, and is answered once.
//
// A message that Cortex refuses for good has an answer that says why, as any other has, and [Client.Watch] finds that, too, when nobody was there
// to hear it.
package client
