// Package prompt renders what Cortex tells a language model: the instructions, the agents that can be given work, the
// conversation so far and what agents answered. The texts are templates, embedded in the binary and replaceable from a
// folder; every case has a golden file in testdata/prompt.
//
// Card texts, results and user texts are data from strangers. They are capped, freed of control characters and delimited
// before they enter a prompt, and never become part of the instructions.
package prompt
