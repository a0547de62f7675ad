// Package decide is the way to a decision: what a turn may do (rules, limits, budgets), which agents it is shown (package catalog), what the
// decider is asked, with the conversation summarised until it fits, and what of its answer holds.
//
// [Maker.Decide] is the way from top to bottom. What needs no decider is decided first: a turn over its limits (rate.go), a reply to a question
// for a yes (consent.go), a direct request (direct.go), a decision that was paid for and came second (adopt.go). Then the turn waits until it may be decided (inflight.go), and the decider is asked (ask.go, call.go),
// and asked again when its decision is above the in-flight limit of an agent. What follows from rules alone, without a decider, is in [Maker.Judge].
package decide
