// Package decide makes decisions. It determines what a turn may do (rules, limits, budgets), which agents it is shown (package catalog), what the
// decider is asked, with the conversation summarised until it fits, and which parts of the answer are valid.
//
// [Maker.Decide] shows all steps in order. It first handles what needs no decider: a turn over its limits (rate.go), a reply to a request for consent
// (consent.go), a direct request (direct.go), a paid decision that came second (adopt.go). Then the turn waits until fewer are decided (inflight.go), and the
// decider is asked (ask.go, call.go), repeatedly if its decision is above the in-flight limit of an agent. [Maker.Evaluate] has
// results checked, and [Maker.Redirect] says which tasks are not sent any more and which are tried again (retry.go).
package decide
