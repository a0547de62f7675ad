// Package persona makes agents of a prompt and tools: a Markdown file whose front matter has a name, a description and a list of tools, as Claude Code
// and VS Code read it, see [Read].
//
// For each task a language model is asked for its next step, which is a list of calls or the answer, until it answers ([Agent.Execute]). Its tools are
// those of MCP servers, files in a folder, other agents through Cortex, questions to the user, skills (folders with a SKILL.md), and a memory
// of its own in each conversation. The loop is bounded by steps, tokens, cost, time and repetition; at a bound the model gives the answer that it has, and
// the answer says so.
//
// A journal has each step before it is done, and each call that may have an effect before it is made. A task that was cut off goes on where it was: a call
// with effects is never made twice, and when its outcome is unknown the model is told. The journal has what the task has read and done, for 7 days
// or until the conversation is erased ([Forget]).
//
// What tools, agents and files say is data: it stands in marked blocks, and a call that may destroy something needs the user's yes.
package persona
