// Package vertex is an [llm.Client] for Gemini models on Vertex AI, by cloud.google.com/go/vertexai, over gRPC or REST.
//
// That SDK is frozen upstream: it is deprecated, gets no fixes, and knows nothing of models that came after it. Whoever
// starts with Google today takes package llm/gemini; this one is for installations that are bound to the SDK.
//
// What the SDK cannot do is done below it, on the protocol's own messages, see call: parts that it does not know, with
// which it would panic, become empty text; thoughts are no text; the signatures that Gemini 3 puts on its answers go back
// with the history; the order of a schema's properties is kept; usage, model version and response id are read. Over gRPC
// that is a stream interceptor, over REST an [net/http.RoundTripper] that rewrites the JSON array of an answer element by
// element, while it comes.
package vertex
