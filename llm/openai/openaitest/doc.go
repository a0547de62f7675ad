// Package openaitest is a test server for OpenAI's chat completions: its frames, its usage, its errors, and the errors of other endpoints with this
// protocol. It rejects what OpenAI rejects.
package openaitest
