// Package mcp lets MCP hosts (Claude Code, VS Code, Codex and others) ask Cortex: it is an MCP server with six tools (ask, ask_agent,
// list_agents, get_turn, cancel, reply) and resources (conversations, agents, files of answers). Protocol revisions 2025-06-18 to 2026-07-28 are
// supported, on standard input and output ([Door.Serve]) and over HTTP ([Door.Handler]). A [Door] is made of a [client.Client], and is used by
// `cortex mcp` and by the path /mcp of `cortex serve`.
//
// # Time limits
//
// Hosts end a call after a time limit, often a minute. So a call waits for [Config].Wait, and then returns the id of the turn and that Cortex
// still works; get_turn goes on waiting. A call that a host has cut does not cancel its turn: only the tool cancel does.
//
// # The same call twice
//
// A turn is begun once:
//
//   - Calls of a user with the same key, an argument that the host chooses, and the same words are one turn, also after a restart.
//   - So is a request that is sent again with its id in its HTTP session.
//   - So is a call with the same words in the same session after one that was cut, or that returned before the answer came, for ten minutes. A
//     host that lost an answer need not know the turn's id to get it.
//
// # Questions
//
// When an agent asks something, or Cortex wants a yes, the user of a host with elicitation gets a form; of another one the question is the result
// of the call, and the tool reply answers it. A model cannot give a yes in place of a user whom the host can ask. The question is kept in the
// conversation: it can be answered after a restart, and elsewhere, such as in the chat.
//
// # Who asks
//
// On standard input and output this is the user of the client. Over HTTP it is whoever the bearer token names; where Cortex has no keys, programs
// on this machine need none, and others are refused. Each caller only sees their own turns, and conversations that are theirs or shared with them.
package mcp
