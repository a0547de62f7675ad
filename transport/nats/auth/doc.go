// Package auth makes and reads the keys by which a NATS server identifies its users: an operator, an account for each tenant, and credentials for
// orchestrators, people and agents, each with the permissions that it needs and no others. The keys are nkeys, the credentials NATS JWTs, so that
// any nats-server can use them (https://docs.nats.io, decentralized JWT authentication).
//
// # Who may do what
//
// Tenants are accounts of the server: no message passes between them, whatever goes wrong within one. Within a tenant:
//
//   - [Orchestrator]: everything.
//   - [Agent] and [Person]: publish to their [Gateway] only; subscribe to their own replies ([Replies]) and to what they may watch: an agent its
//     own control topic, people the live topics and the events about agents.
//
// A running orchestrator serves the gateway. A message to the gateway is the intended message with the gateway's prefix before its subject; the
// server guarantees the name in that prefix. The orchestrator lets through an agent's own card, its results and live updates, pulls and
// acknowledgements of its own tasks and their dead letters; of people their messages and cancellations, and reads of logs, outlines, cards, notes
// and dead letters. It writes the headers anew. It answers what it refuses, including what nobody could handle, so that an acknowledgement means
// that Cortex has the event.
//
// The messages of one caller are handled one after the other and at a bounded rate; more of them wait or are refused, so that a caller's flood
// delays only itself. Only an agent has a consumer, of its own inbox: a stream has a limited number of them, and people read by bounded requests.
// The number of an agent's cards is bounded, and an agent may give up only events in its inbox.
//
// Permissions of the server alone, for each of these subjects, would not suffice. A user who may publish to any subject of a stream with timers can
// make the server publish to any other by a header (Nats-Schedule-Target), or empty the whole stream (Nats-Rollup: all). And a user who may send
// any request to the server can name any reply subject, to which the server then publishes in its own name: another user's inbox, or the log of a
// conversation. So agents and people send no requests to the server itself, and the gateway checks that the reply subjects of requests on their
// behalf are their own. The price is that they need a running Cortex for everything; without one they wait, and say so.
//
// # What is not protected
//
//   - Credentials that were given away, until [Revoke] makes them worthless. Only the key that signs accounts can do that, and it needs the
//     credentials, or a copy: keep them in the folder.
//   - The people of a tenant from each other: each can read and watch every conversation. Nor are agents protected from Cortex.
//   - The list of agents, and the sizes and times of messages, from the people of the tenant.
//   - The network of the server from floods. The gateway bounds what it handles; limits of connections and of bytes sent are options of
//     nats-server, for an external one.
//   - What is in the files of the server's store, from those who can read that folder.
package auth
