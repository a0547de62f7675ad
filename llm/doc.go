// Package llm is the interface between Cortex and language models.
//
// A provider implements [Client], which has one method, and is passed to [NewDecider]: the decider renders the prompt, calls the client, parses the
// JSON, checks it against the agents that exist, and asks again with the error if the check fails. Cortex itself only uses [Decider]; package fake
// implements one without a model. README.md in this folder explains how to add a provider. Each kind of decision is a row of the table in kind.go.
package llm
