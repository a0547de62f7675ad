// Package geminitest is a local test server for the protocol of the Gemini API and of Vertex AI, as far as it is documented: streaming
// generateContent of versions v1beta and v1beta1.
package geminitest
