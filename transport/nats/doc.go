// Package nats carries Cortex's events over NATS: work and cards through JetStream, what is watched through core NATS.
// Use it whenever events have to survive a restart or to reach other processes. [StartServer] runs a server inside the
// program; [Dial] connects to that one, in process, or to any other server or cluster of version 2.14 or later.
//
// # What is where
//
// Programs in other languages can join by these names alone. The body of a message is the payload as JSON, unchanged;
// the rest of the event is in headers (Cortex-Id, Cortex-Kind, …, traceparent).
//
//	CORTEX_INBOX      work queue; an event is stored until a subscriber acknowledges it
//	  cortex.v1.inbox.<tenant>.<to>.<p>.<context>.<from>
//	  cortex.v1.timer.<tenant>.<to>.<context>     an event that waits for its time, one per inbox and conversation
//	  cortex.v1.timer._keep                       a message that is never consumed: an empty work queue is slow
//	KV_CORTEX_AGENTS  key-value bucket of cards, one key per instance, expiring with the card's TTL
//	  $KV.CORTEX_AGENTS.<tenant>.<agent>.<instance>
//	CORTEX_DEAD       events that were given up; the oldest go when it is full
//	  cortex.v1.dead.<tenant>.<to>
//	core NATS
//	  cortex.v1.live.<tenant>.<id>.<from>
//	  cortex.v1.peer.<tenant>.<to>                answered by every subscriber of that inbox
//
// <p> is a partition of the conversations, 0 to 63. The other tokens are ids, escaped: every byte that is not an ASCII
// letter, a digit, "-" or "_" is "=" and two hexadecimal digits, and the empty id, the default tenant, is "_" (an id "_"
// is "=5F"). The sender is the last token and nowhere else, so that a server's permissions can hold everyone to its name.
package nats
