// Package mcp lets MCP hosts (Claude Code, VS Code, Codex and others) ask Cortex: it is an MCP server with six tools (ask, ask_agent,
// list_agents, get_turn, cancel, reply) and resources (conversations, agents, files of answers). Protocol revisions 2025-06-18 to 2026-07-28 are
// supported, on standard input and output ([Server.Serve]) and over HTTP ([Server.Handler]). A [Server] is made of a [client.Client], and is used by
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
//   - Calls of a user with the same key, an argument that the host chooses, and the same words are one turn, also after a restart. This alone holds
//     whatever happens.
//   - So is a request that is sent again with its id in its HTTP session.
//   - So is a call with the same words in the same session after one that was cut, or that returned before the answer came, for ten minutes. A
//     host that lost an answer need not know the turn's id to get it.
//
// The last two are kept in memory. Without a key, the same call is another turn when the process that answered the first one has ended since, even
// if it was killed. It is also another turn when the first one was answered: on standard input and output, an answer that comes after the host has
// given up a call without saying so (notifications/cancelled) counts as taken. Over HTTP the end of the connection says so.
//
// # Questions
//
// When an agent asks something, or Cortex wants a yes, the user of a host with elicitation gets a form; of another one the question is the result
// of the call, and the tool reply answers it. A model cannot give a yes in place of a user whom the host can ask: what it says by ask is none. The
// question is kept in the conversation: it can be answered after a restart, and elsewhere, such as in the chat. A reply is for the question of its
// turn only: when that is not waited for any more, because it was answered elsewhere or something else was asked, nothing is done.
//
// # Who asks
//
// On standard input and output this is the user of the client. Over HTTP it is whoever the bearer token names; where Cortex has no keys, programs
// on this machine need none, and others are refused. Each caller only sees their own turns, and conversations that are theirs or shared with them.
package mcp
