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
//   - system.tmpl: the instructions and the agents. Agents, MaxParallel (0: no limit), Choice (the agents are a choice out of
//     more, and the model may search), Searches (how often in one decision).
//   - agent.tmpl: one agent, for system.tmpl, update.tmpl and found.tmpl. ID, Name, Like (the id of another agent that is shown with
//     it and whose id looks the same), Description, Seen, Skills (each with ID,
//     Name, Description, Tags, Examples, Input: a JSON Schema) and More, the number of skills left out. The texts are JSON
//     strings, quotes included; empty when there is none.
//   - earlier.tmpl: what stands for turns that are not shown, before the first message of the user. Summary.
//   - update.tmpl: how the agents have changed, before the message of the user or the results that it came with. Joined
//     (agents), Left (ids, JSON strings); one of them may be empty. Choice, as in system.tmpl.
//   - user.tmpl: a message of the user. Text; Files, a JSON object each: the key by which a delegation names it, its name, type, bytes, and
//     the first lines of a text.
//   - results.tmpl: what came of a step. Tasks, a JSON object each, with such files.
//   - facts.tmpl: what holds for this call only, at the end of the prompt. Time, Omitted, Waiting and Unavailable (a JSON object
//     each), More (agents beside those shown), Choice, Last.
//   - found.tmpl: what a search for agents found. Agents, Fits (whether they do, or only come closest), Left (searches).
//   - summary_system.tmpl: the instructions for a summary. It is given nothing.
//   - summary.tmpl: what a summary is asked of. Summary, that of what came before, or empty; Turns, each with User, Results
//     (a JSON object each), Kind (respond, clarify, refuse) and Answer, empty when there was none.
package prompt
