// Package a2a turns agents on the network that speak A2A into agents of Cortex: one agent per card, with all its skills. A2A 1.0 and 0.3 are
// spoken, over JSON-RPC, HTTP+JSON and gRPC.
//
// A task of Cortex is one task of the other agent, from the moment that its server has named it: its id is in a journal, so that after a restart
// of Cortex, of this process or of the server the same task is followed. A server that has forgotten its task makes the task fail; it is not
// sent again. Before the server has named it, a task whose sending was cut off is looked for, and sent again with the same message id if it is
// not found.
//
// What another agent says, on its card and in its results, is data from strangers: it is bounded, its links are links, and it names no other host
// that would be asked, unless that is allowed.
package a2a
