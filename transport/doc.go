// Package transport is the interface between Cortex and what carries its events: agents, clients, bridges and the orchestrator communicate through a
// [Transport] only.
//
// A transport has three kinds of topics with different guarantees:
//
//   - [Inbox] carries work. Publish returns when the event is stored; it is delivered at least once, and waits while there is no
//     subscriber. Subscribers of one inbox share its events. Within one subscription the events of one ContextID are delivered in
//     the order in which they were published and one at a time, while other conversations proceed in parallel; with
//     [SubscribeOptions].Unordered they do not wait for each other. An event that is published twice with the same ID, by
//     the same sender and for the same conversation, within [DuplicateWindow] is stored once.
//   - [Cards] carries announcements. The newest card of every running agent instance is retained: a new subscriber gets
//     them all, then one [Synced], then every change. Before Synced it may also get cards of instances that left shortly
//     before. A card that is not published again within its TTL is reported as gone.
//     A running Cortex also publishes an [AgentEvent] for each change of an agent there, which is not retained and best effort.
//   - [Live] carries what a person watches as it happens: progress, delegations, the text of an answer as it is written.
//     It is best effort, to the present subscribers only, and never the only copy of anything.
//
// A transport may also store [Files], which are too large for an event: the event has a reference, which [OpenPart] reads.
//
// Implementations are in the folders below (memory, nats). Each passes the conformance suite of package transporttest unchanged; a third-party
// transport starts with that suite, and is added to a program with app.Options.Transports.
package transport
