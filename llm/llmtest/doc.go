// Package llmtest is for tests of code around models. [Run] is the conformance suite of [llm.Client]: the author of a client runs it, unchanged,
// against a local server that speaks the provider's protocol. A client that passes it is complete.
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
// For tests of deciders, and of code that acts on decisions, it has a scripted client ([Script]) and scripted deciders ([Decisions], [DeciderFunc]).
package llmtest
