// Package eval measures how well a router.Index finds the agents that fit a request. It is for developers of the router, and for users who want to
// know what to expect on their own requests. Run does what `cortex eval routing` does; Measure asks any Searcher.
//
// # Files
//
// All files are JSON, one object on each line, at most 1 MiB long; other fields than these are ignored.
//
// Agents: {"id", "name", "description", "skills": [{"id", "name", "description", "examples": [], "tags": []}]}. No two have the same id.
//
// Queries: {"query", "agents": [id, …]}, and where wanted "any_of": [[id, …], …] and "pool": [id, …]. An id in "agents" or "any_of" that is not the
// id of an agent is that of a skill, and stands for the agents that have this skill. "agents" empty, without "any_of", says that no agent fits: the
// query is out of scope. "pool" are the only agents that are offered for the query.
//
// # Definitions
//
// A query in scope has needs. Each list of "any_of" is one: one agent of it is needed. The agents of "agents" together are one need, so that any of
// them is right; with Config.Multi each is a need of its own. Shares are means over the queries in scope, from 0 to 1.
//
//   - top1: the best hit meets a need.
//   - recall@k: the share of a query's needs that the first k hits meet.
//   - all@k: the first k hits meet all needs.
//   - auroc: how likely the best score of a query in scope is above the best score of one out of scope, a tie counting one
//     half. The score of a query without a hit is 0.
//   - oos_refused: the share of the queries out of scope with a best score below router.Fits.
//   - in_scope_kept: the share of the queries in scope with a best score of at least router.Fits.
//   - p50, p99: the wall time of one Search, one at a time, after 100 searches that do not count.
//
// The last three shares need queries out of scope, in Config.Queries or in Config.OOS; without any they are nil.
//
// # Learning and growing
//
// The queries of Config.Learn are first given to the index as delegations that completed now: one piece of evidence for each query and agent of its
// "agents", each query from a different user. Queries that are in both files are measured nevertheless; Report.Shared counts them.
//
// With Config.New every nth agent, in the order of the files, has no evidence, and top1 is also reported separately: for the queries that only such
// agents fit (top1_new), and for all others (top1_others). This shows how much evidence of other agents disadvantages a new one. Without Config.Learn
// the same agents are reported separately, but none has evidence.
//
// Config.Grow (the flag --grow, which help does not show) adds agents until there are that many, to measure with ten thousand, for example. First
// each skill of agents that no query needs and that have several skills becomes an agent, unless some card has the same name and description: such
// cards are as different as those of agents. When there are none left, those agents are repeated, with "-2", "-3" and so on after the id and a number
// after the name; Report.Repeated counts these, among which the right agent is easier to find.
package eval
