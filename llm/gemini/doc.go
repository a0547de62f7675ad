// Package gemini is a client for Google's models: at the Gemini API with a key, or at Vertex AI with a project. It is the recommended one; package
// vertex uses the same models through an SDK that is no longer developed.
//
// The SDK builds the requests and decodes the answers. A transport around the SDK's own does the rest: it splits a stream into events and passes on
// complete ones only, keeps the status and the header of each response, and bounds everything.
package gemini
