// Package mcp turns MCP servers into agents: one agent per server, one skill per tool. A server is a program that speaks MCP on standard input
// and output, or a URL. Protocol revisions 2025-06-18 to 2026-07-28 are supported, and the HTTP+SSE transport of 2024-11-05.
//
// A tool's schemas become the schemas of its skill. Its annotations decide whether Cortex asks the user before a call (see
// package agentcard) and whether a call may be repeated. The agent keeps a journal of its calls, so that a call with side effects is never
// made twice: when a call was interrupted, its task fails and says that the outcome is unknown. The journal has the arguments and results of calls,
// for 7 days, or until the conversation is erased ([Forget]).
//
// A server at a URL may want OAuth. [Login] logs the user in, and the agents of the same folder use and refresh the tokens.
//
// What a server says about itself is untrusted: it is bounded, and changes to tools are reported.
package mcp
