// Package llm is the contract between Cortex and language models.
//
// Somebody who adds a provider implements [Client], one method, and passes it to [NewDecider]: the decider renders the
// prompt, calls the client, reads its JSON, checks it against the agents that are there, and asks again with the error
// when it does not fit. Cortex itself only knows a [Decider]; package fake implements one without any model. README.md
// beside this file tells how to add a provider. A kind of decision is a row of the table in kind.go.
package llm
