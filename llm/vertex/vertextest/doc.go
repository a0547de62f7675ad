// Package vertextest has local servers that speak Vertex AI's protocol, over gRPC and over REST, and say what a script of
// package llmtest tells them to. It is for tests of clients of Vertex AI.
package vertextest
