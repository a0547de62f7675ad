// Package openaitest is a server for tests that speaks OpenAI's chat completions: its frames, its usage, its errors, and the
// errors of others that speak them too. It refuses what OpenAI refuses.
package openaitest
