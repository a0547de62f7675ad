// Package vertex is an [llm.Client] for Gemini models on Vertex AI, through cloud.google.com/go/vertexai, over gRPC or REST.
//
// That SDK is frozen upstream: it is deprecated, gets no fixes, and does not support newer models. New users of Google's models should use package
// llm/gemini; this one is for installations that are bound to the SDK.
//
// What the SDK cannot do is done below it, on the protocol's own messages, see call: unknown parts, with which it would panic, become empty text;
// thoughts are no text; the signatures that Gemini 3 puts on its answers are sent back with the history; the order of a schema's properties is kept;
// usage, model version and response id are read. Over gRPC a stream interceptor does that, over REST an [net/http.RoundTripper] that rewrites the
// JSON array of an answer element by element, as it arrives.
package vertex
