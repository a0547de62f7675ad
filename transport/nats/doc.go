// Package nats carries Cortex's events over NATS: work and cards through JetStream, live events through core NATS. Use it when events have to
// survive a restart or to reach other processes. [StartServer] runs a server inside the program; [Dial] connects to that one in process, or to any
// other server or cluster of version 2.14 or later.
//
// # Streams and subjects
//
// These names are all that programs in other languages need to join. The body of a message is the payload as JSON, unchanged; the rest of the event
// is in headers (Cortex-Id, Cortex-Kind, …, traceparent, tracestate).
//
//	CORTEX_INBOX      work queue; an event is stored until a subscriber acknowledges it
//	  cortex.v1.inbox.<tenant>.<to>.<p>.<context>.<from>      <p> is 0 to 3; the server refuses others
//	  cortex.v1.timer.<tenant>.<to>.<context>     an event that waits for its time, one per inbox and conversation
//	  cortex.v1.timer._keep                       a message that is never consumed: an empty work queue is slow
//	KV_CORTEX_AGENTS  key-value bucket of cards, one key per instance, expiring with the card's TTL
//	  $KV.CORTEX_AGENTS.<tenant>.<agent>.<instance>
//	CORTEX_DEAD       events that were given up; the oldest are discarded when it is full
//	  cortex.v1.dead.<tenant>.<to>.<context>
//	CORTEX_FILES      files that are too large for an event, in chunks of 256 KiB, sealed
//	  cortex.v1.file.<tenant>.<context>.<from>.<object>.<n>
//	KV_CORTEX_LEASE   key-value bucket, in memory unless it is replicated; a key expires three seconds after it was last written
//	  $KV.CORTEX_LEASE.<tenant>.<to>.member.<id>  an ordered subscriber of that inbox: {"label","since"}
//	  $KV.CORTEX_LEASE.<tenant>.<to>.partition.<p>  the owner of a partition of it: {"owner","epoch"}
//	core NATS
//	  cortex.v1.live.<tenant>.<id>.<from>
//	  cortex.v1.peer.<tenant>.<to>.<id>           requests that an ordered subscriber of that inbox answers while it runs
//	  cortex.v1.peer.<tenant>.<to>                notifies all of them of a change in the bucket of leases
//
// <p> is a partition of the conversations (see [transport.Partition]). The other tokens are ids, escaped: every byte that is not an ASCII letter, a
// digit, "-" or "_" is "=" and two hexadecimal digits, and the empty id, the default tenant, is "_" (an id "_" is "=5F"). The sender is always the
// last token, so that a server's permissions can restrict every user to its own name.
//
// # Consumers and leases
//
// An agent's inbox has no order. It has one durable consumer, agent-<to>[,<tenant>], from which all its subscribers pull. The orchestrator's inbox
// is ordered and has one consumer for each partition, cortex-0 to cortex-3[,<tenant>]. A subscriber pulls only from the partitions whose lease it
// holds, and renews its leases every second. Subscribers share the four partitions as evenly as possible. A killed subscriber is noticed when it
// does not answer a request, a disconnected one when its leases expire. The epoch grows with each owner and is in every event; the log of a
// conversation refuses appends of an earlier owner. Either all subscribers of an inbox keep its order, or none does.
//
// # Gateways
//
// With credentials of an agent or a person (see package auth), the server lets a program publish only to its gateway: the program puts the
// gateway's prefix, [auth.Gateway], before each subject above, and before those of JetStream's API and of acknowledgements. Answers arrive below
// [auth.Replies]. A running orchestrator checks each message and passes on what the caller may do. Subscribing needs no gateway. Refusals look like
// errors of the server: code 403 for what the caller may not do, 400 for malformed messages, 413 for messages that are too large, 404 for a task
// that does not exist, 507 when the inboxes are full, and 429 for requests above the caller's share.
package nats
