// Package llmtest has what tests of code around a model need: a scripted [llm.Client] for testing deciders, and a
// scripted [llm.Decider] for testing what acts on decisions.
package llmtest
