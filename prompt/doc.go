// Package prompt renders what Cortex tells a language model: the instructions, the agents that can be given work, the
// conversation so far and what agents answered. The texts are templates, embedded in the binary and replaceable from a
// folder; every case has a golden file in testdata/prompt.
//
// Card texts, results and user texts are data from strangers. They are capped, freed of control characters and delimited
// before they enter a prompt, and never become part of the instructions. What they say can still sway a model: what a
// model decides is therefore checked, and is all that it can do.
//
// The templates, and what each one is given:
//
//   - system.tmpl: the instructions and the agents. Agents, MaxParallel (0: no limit).
//   - agent.tmpl: one agent, for system.tmpl. ID, Name, Description, Seen, Skills (each with ID, Name, Description, Tags,
//     Examples) and More, the number of skills left out. The texts are JSON strings, quotes included; empty when there is none.
//   - user.tmpl: a message of the user. Text.
//   - results.tmpl: what came of a step. Tasks, a JSON object each.
//   - facts.tmpl: what holds for this call only, at the end of the prompt. Time, Omitted, Waiting (a JSON object each), Last.
package prompt
