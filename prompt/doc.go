// Package prompt renders what Cortex tells a language model: the instructions, the agents that can be given work, the conversation so far and the
// results of agents. The texts are templates, which are embedded in the binary and can be replaced from a folder. Every case has a golden file in
// testdata.
//
// Texts of cards, results and users are not trusted. They are truncated, freed of control characters and delimited before they enter a prompt, and
// never become part of the instructions. They can still influence a model, so the decision of a model is checked, and a model can do nothing but
// decide.
//
// The templates, and their data:
//
//   - system.tmpl: the instructions and the agents. Agents, MaxParallel (0: no limit), Choice (the agents are a shortlist, and
//     the model may search for more), Searches (how often in one decision).
//   - agent.tmpl: one agent, for system.tmpl, update.tmpl and found.tmpl. ID, Name, Like (the id of another agent in the same
//     list whose id looks the same), Description, Seen, Skills (each with ID, Name, Description, Tags, Examples, Input: a JSON
//     Schema) and More, the number of skills left out. The texts are JSON strings, including the quotes; empty when there is none.
//   - earlier.tmpl: a replacement for turns that are not shown, before the first message of the user. Summary.
//   - update.tmpl: how the agents have changed, before the message of the user or the results with which that was first shown.
//     Joined (agents), Left (ids, JSON strings); one of them may be empty. Choice, as in system.tmpl.
//   - user.tmpl: a message of the user. Text; Files, a JSON object each: the key by which a delegation names it, its name, type,
//     bytes, and the first lines of a text.
//   - results.tmpl: the results of a step. Tasks, a JSON object each, with such files. Of a result of more than 8 KB the object has its key, bytes, lines and
//     first lines.
//   - facts.tmpl: what applies to this call only, at the end of the prompt. Time, Zone and Locale (the user's), Omitted, Waiting and Unavailable (a JSON object
//     each), More (the number of agents not shown), Choice, Last, ReasonFirst, Reads (how often a decision may read; 0 when there is nothing to read).
//   - found.tmpl: the result of a search for agents. Agents, Fits (false: none fits, and these are the closest), Left (searches).
//   - read.tmpl: a part of a result or a file. Key and Find (JSON strings; Find may be empty), First and Last (the numbers of the lines), Lines (of all),
//     Text (empty when there is none), More (lines left out), Left (reads).
//   - summary_system.tmpl: the instructions for a summary. It has no data.
//   - summary.tmpl: the conversation to summarise. Summary, that of earlier turns, or empty; Turns, each with User, Results
//     (a JSON object each), Kind (respond, clarify, refuse) and Answer, empty when there was none.
package prompt
