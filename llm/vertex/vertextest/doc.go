// Package vertextest has local test servers for Vertex AI's protocol, over gRPC and over REST, that reply as a script of package llmtest tells them.
package vertextest
