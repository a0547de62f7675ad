// Package transport is the contract between Cortex and whatever carries its events: agents, chats, gateways and the
// orchestrator all speak to each other through a [Transport], and to nothing else.
//
// A transport offers three topics with three guarantees:
//
//   - [Inbox] carries work. Publish returns once the event is stored; it is delivered at least once, and waits while
//     nobody listens. Subscribers of one inbox share its events. Within one subscriber the events of one ContextID come
//     in the order in which they were published and one at a time, while other conversations go on in parallel; with
//     [SubscribeOptions].Unordered they do not wait for each other. An event published twice with the same ID, by
//     the same sender and for the same conversation, within [DuplicateWindow] is stored once.
//   - [Cards] carries announcements. The newest card of every running agent instance is retained: a new subscriber gets
//     them all, then one [Synced], then every change. Before Synced it may hear once more of instances that left a short while
//     ago. A card that is not published again within its TTL is reported gone.
//     Beside the cards, a running Cortex tells what it makes of them: an [AgentEvent] is not retained, and best effort.
//   - [Live] carries what a person watches while it happens: progress, delegations, the text of an answer as it is written.
//     Best effort, to everyone who listens now; it is never the only copy of anything.
//
// Beside the topics it may keep [Files], for what is too large for an event: an event then has a reference, which [OpenPart] reads.
//
// Implementations live in the folders below (memory, nats). Each passes the conformance suite of package transporttest
// unchanged; somebody who writes a third one starts there, and plugs it into a program by app.Options.Transports.
package transport
