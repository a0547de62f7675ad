// Package eval measures how well deciders decide, on cases whose right decisions are known: which kind, which agents, in which order, with which
// arguments. It measures the prompts and the model together, since both are needed for a decision; no agent runs, and nothing is stored.
//
// It comes with 150 cases: 30 situations in each of five languages. See README.md for the form of a case, and for what is counted.
package eval
