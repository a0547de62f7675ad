// Package anthropic is a client for Claude, at Anthropic's Messages API or at an endpoint that speaks it.
//
// The SDK builds the requests and decodes the events. A guard around its HTTP client passes on complete and bounded events only, and explains errors.
package anthropic
