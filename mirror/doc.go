// Package mirror copies the log of all conversations to PostgreSQL, for audits and for questions in SQL: every entry once, and beside the entries the
// conversations, turns, tasks and spending that follow from them. It is for `cortex mirror` and for the role of `cortex serve` with --postgres.
//
// A mirror reads a [storage.Journal] and writes the entries, what follows from them, and its position in one transaction, which begins with the position
// that it expects: of two mirrors of one log only one can commit, and after a kill nothing is there twice or missing. Turns do not wait for it. What
// is erased from the log is deleted here when it is gone there.
package mirror
