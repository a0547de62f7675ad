// Package mcp makes agents of MCP servers: one agent for each server, with one skill for each of its tools. A server is a program that
// speaks on its standard input and output, or an address; of the protocol's revisions it may have any from 2025-06-18 to 2026-07-28, or
// the transport of before.
//
// A tool's schemas are those of its skill, and its annotations say what Cortex asks a person about and what is never done twice: see
// [Options]. What a tool is asked and what came of it is in a journal, so that no call is made twice that has an effect each time it is made:
// where a call was cut off, the answer is that its outcome is unknown.
//
// What a server says of itself is a stranger's: it is data, bounded, and a change of it is told.
package mcp
