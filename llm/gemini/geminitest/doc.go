// Package geminitest has a local server that speaks the protocol of the Gemini API and of Vertex AI, streaming
// generateContent of version v1beta or v1beta1, by what is documented of it: for tests of what calls a model of Google's.
package geminitest
