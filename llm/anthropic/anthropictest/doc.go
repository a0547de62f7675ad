// Package anthropictest is a local test server for Anthropic's Messages API, as far as it is documented: its events, its usage and its errors.
package anthropictest
