// Package evaluate judges what an agent is about to answer: by rules, which are patterns, or by a language model. A result that does not pass is
// changed, refused, or shown to the user first. The names of fields are those of AgentSpec (evaluators, reflection).
package evaluate
