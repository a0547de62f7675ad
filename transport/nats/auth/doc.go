// Package auth makes and reads the keys by which a NATS server knows who is there: an operator, an account for each tenant, and
// credentials for orchestrators, people and agents, each with the permissions that it needs and no others. The keys are nkeys, the
// credentials NATS JWTs, so that any nats-server can use them (https://docs.nats.io, decentralized JWT authentication).
//
// # Who may do what
//
// Tenants are accounts of the server: nothing passes between them, whatever is done wrong within one. Within a tenant:
//
//   - [Orchestrator]: everything.
//   - [Agent] and [Person]: publish to their [Gateway] and to nothing else that matters; subscribe their own replies ([Replies]) and
//     what they may watch: an agent its own control topic, people the live topics and what is told of agents.
//
// A running orchestrator stands behind the gateway. What is published to it is the message that was meant, with the gateway before its
// subject; the server vouches for the name that is part of the gateway. The orchestrator lets through an agent's own card, its
// results and live updates, the taking and acknowledging of its own tasks and their dead letters; of people their messages and
// cancellations, and the reading of logs, outlines, cards, notes and dead letters. It writes the headers anew, and answers what it refuses: also what
// nobody could handle, so that an acknowledgement means that Cortex has it.
//
// What one caller sends is looked at in its turn, so much of it in a second, and the rest waits or is refused; whoever asks for much
// waits for itself only. Nobody has a consumer of the server but an agent, of its own inbox: a stream has room for so many, and people
// read by requests that are bounded. An agent has at most so many cards, and may give up only what is in its inbox.
//
// Permissions of the server alone, for each of these subjects, would not hold. Who may publish any one subject of a stream that
// keeps timers can have the server publish any other, by a header (Nats-Schedule-Target), or empty the whole stream
// (Nats-Rollup: all). And who may ask the server for anything may name any subject for the answer, which the server then publishes
// in its own name: another's inbox, or the log of a conversation. So agents and people ask nothing of the server itself,
// and the answers that the orchestrator asks for on their behalf go to where they may listen, which it checks.
// The price is that they need a running Cortex for everything; without one they wait, and say so.
//
// # What is not protected
//
//   - Credentials that are given away. They hold until the server no longer trusts the account: there is no revoking of one
//     of them but to make the keys of the tenant anew.
//   - The people of a tenant from each other's eyes: each can read every conversation, and watch them. Nor agents from Cortex.
//   - The list of agents, the sizes and times of messages, from the people of the tenant.
//   - The network of the server from floods. What comes through a gateway is bounded; limits of connections and of bytes that are
//     sent at all are nats-server's to set, for an external one.
//   - What is in the files of the server's store, from who can read that folder.
package auth
