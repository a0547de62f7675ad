// Package llmtest is for tests of what is around a model. [Run] is the conformance suite of [llm.Client]: whoever writes a
// client runs it, unchanged, against a local server that speaks the provider's protocol, and has written a client when it
// passes.
//
//	func TestConformance(t *testing.T) {
//		llmtest.Run(t, llmtest.Wire{
//			Dial: func(t *testing.T, h llmtest.Handler, o llmtest.Options) llm.Client {
//				s := serve(t, h) // decodes a request into a Call, and writes the Reply
//				return New(Config{URL: s.URL, Key: o.Key, Model: llmtest.Model})
//			},
//			Modes: []llm.Structured{llm.StructuredSchema, llm.StructuredPrompt},
//			Lacks: []llmtest.Feature{llmtest.NoCacheKey},
//		})
//	}
//
// For tests of deciders, and of what acts on decisions, there are a scripted client ([Script]) and scripted deciders
// ([Decisions], [DeciderFunc]).
package llmtest
