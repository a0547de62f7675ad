// Package budget limits what is spent on models per turn, conversation and day, and writes what is spent each day to the store, in the
// background of the turns.
package budget
