// Package budget is what is spent on models, and what may be: limits for a turn, a conversation and a day, and the log of what was spent
// that is written down behind the turns.
package budget
