// Package gemini is a client for Google's models: at the Gemini API with a key, or at Vertex AI with a project. It is what
// to pick for them; package vertex speaks to the same models by an SDK that is no longer developed.
//
// The SDK builds the requests and decodes the answers. What it leaves open is done here, by a transport around its own: it
// takes the events of a stream apart and gives the SDK whole ones only, keeps the status and the headers of each response,
// and bounds everything.
package gemini
