// Package agenthub has programs of AgentHub work with Cortex as they are.
//
// Cortex is their hub: agents that register are agents of Cortex, chats are turns, and what programs tell each other is passed on. See [Role].
package agenthub
