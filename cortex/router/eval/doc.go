// Package eval measures how well a router.Index finds the agents that fit a request. It is for those who change the router, or
// want to know what to expect of it on requests of their own. Run does what `cortex eval routing` does; Measure asks any Searcher.
//
// # Files
//
// All files are JSON, one object on each line, at most 1 MiB long; other fields than these are passed over.
//
// Agents: {"id", "name", "description", "skills": [{"id", "name", "description", "examples": [], "tags": []}]}. No two have
// the same id.
//
// Queries: {"query", "agents": [id, …]}, and where wanted "any_of": [[id, …], …] and "pool": [id, …]. An id in "agents" or
// "any_of" that is no agent's is a skill's, and stands for the agents that have this skill. "agents" empty, without "any_of",
// says that no agent fits: the query is out of scope. "pool" are the only agents that are offered for the query.
//
// # Definitions
//
// A query in scope has needs. Each list of "any_of" is one: one agent of it is needed. The agents of "agents" are one need
// together, so that any of them is right; with Config.Multi each is a need of its own. Shares are means over the queries in
// scope, from 0 to 1.
//
//   - top1: the best hit meets a need.
//   - recall@k: the share of a query's needs that the first k hits meet.
//   - all@k: the first k hits meet all needs.
//   - auroc: how likely the best score of a query in scope is above the best score of one out of scope, a tie counting one
//     half. The score of a query without a hit is 0.
//   - oos_refused: the share of the queries out of scope with a best score below router.Fits.
//   - in_scope_kept: the share of the queries in scope with a best score of at least router.Fits.
//   - p50, p99: the wall time of one Search, one at a time, after 100 searches that are not counted.
//
// The last three shares need queries out of scope, in Config.Queries or in Config.OOS; without any they are nil.
//
// # Learning and growing
//
// The queries of Config.Learn are first given to the index as delegations that completed now: one piece of evidence for each
// query and agent of its "agents", each query asked by somebody else. What is in both files is measured all the same;
// Report.Shared counts it.
//
// With Config.New each so many-th agent, in the order of the files, learns nothing, and top1 is also counted apart: of the queries
// for which none but such agents are right (top1_new), and of all others (top1_others). So one sees what it costs an agent that
// others have learned. Without Config.Learn the same agents are counted apart, none of which has learned anything.
//
// Config.Grow (the flag --grow, which help does not show) adds agents until there are that many: the way to measure among ten
// thousand. First each skill of the agents that no query needs and that have several becomes an agent of its own, unless some card
// has its name and description: such cards are as different as those of agents. When there are none left, those agents are
// repeated, with "-2", "-3" and so on after the id and a number after the name; Report.Repeated counts these, among which it is
// easier to find what is right.
package eval
