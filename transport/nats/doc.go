// Package nats carries Cortex's events over NATS: work and cards through JetStream, what is watched through core NATS.
// Use it whenever events have to survive a restart or to reach other processes. [StartServer] runs a server inside the
// program; [Dial] connects to that one, in process, or to any other server or cluster of version 2.14 or later.
//
// # What is where
//
// Programs in other languages can join by these names alone. The body of a message is the payload as JSON, unchanged;
// the rest of the event is in headers (Cortex-Id, Cortex-Kind, …, traceparent, tracestate).
//
//	CORTEX_INBOX      work queue; an event is stored until a subscriber acknowledges it
//	  cortex.v1.inbox.<tenant>.<to>.<p>.<context>.<from>      <p> is 0 to 3; the server refuses others
//	  cortex.v1.timer.<tenant>.<to>.<context>     an event that waits for its time, one per inbox and conversation
//	  cortex.v1.timer._keep                       a message that is never consumed: an empty work queue is slow
//	KV_CORTEX_AGENTS  key-value bucket of cards, one key per instance, expiring with the card's TTL
//	  $KV.CORTEX_AGENTS.<tenant>.<agent>.<instance>
//	CORTEX_DEAD       events that were given up; the oldest go when it is full
//	  cortex.v1.dead.<tenant>.<to>.<context>
//	CORTEX_FILES      files that are too large for an event, in chunks of 256 KiB, sealed
//	  cortex.v1.file.<tenant>.<context>.<from>.<object>.<n>
//	KV_CORTEX_LEASE   key-value bucket, in memory unless it is replicated; a key that is not written again expires after three seconds
//	  $KV.CORTEX_LEASE.<tenant>.<to>.member.<id>  an ordered subscriber of that inbox: {"label","since"}
//	  $KV.CORTEX_LEASE.<tenant>.<to>.partition.<p>  who owns a partition of it: {"owner","epoch"}
//	core NATS
//	  cortex.v1.live.<tenant>.<id>.<from>
//	  cortex.v1.peer.<tenant>.<to>.<id>           answered by an ordered subscriber of that inbox as long as it lives
//	  cortex.v1.peer.<tenant>.<to>                tells all of them that there is something new in the bucket of leases
//
// <p> is a partition of the conversations (see [transport.Partition]). The other tokens are ids, escaped: every byte that is not an ASCII
// letter, a digit, "-" or "_" is "=" and two hexadecimal digits, and the empty id, the default tenant, is "_" (an id "_"
// is "=5F"). The sender is the last token and nowhere else, so that a server's permissions can hold everyone to its name.
//
// # Who handles what
//
// An inbox without order, an agent's, has one durable consumer, agent-<to>[,<tenant>], from which all its subscribers pull. An
// ordered one, the orchestrator's, has one for each partition, cortex-0 to cortex-3[,<tenant>]. A subscriber
// pulls from those whose lease it has, and from nothing else; it renews its leases every second. Subscribers share the four as
// evenly as they can. One that is killed is noticed by its missing answer, one that is cut off by the end of its leases; with each
// owner the epoch grows, which is in every event, and the log of a conversation refuses what an earlier owner still does. All
// subscribers of an inbox keep its order, or none does.
//
// # Gateways
//
// With credentials of an agent or a person (see package auth), the server lets a program publish below its gateway only: it puts the
// gateway's prefix, [auth.Gateway], before each subject above, and before those of JetStream's API and of acknowledgements, and has
// answers come to where [auth.Replies] says. A running orchestrator looks at what comes, and passes on what that one may do.
// Subscribing needs no gateway. What is refused is answered as the server would answer an error, with code 403 for what that one may not
// do, 400 and 413 for what nobody could handle or is too large, 404 for a task that is not there, 507 when the inboxes are full, and
// 429 for more at once than that one's share.
package nats
