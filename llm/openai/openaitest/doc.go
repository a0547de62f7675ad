// Package openaitest is a test server for OpenAI's chat completions and Responses APIs: their frames, their usage, their errors, and the errors of other
// endpoints with this protocol. It rejects what OpenAI rejects.
package openaitest
