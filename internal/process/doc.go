// Package process starts and ends programs with everything that they start: each is in a process group of its own, and, on Linux, all that comes
// of it is known by a variable of its environment, and ends when the process that has started it is killed.
package process

// MarkVar is the variable of the environment that tells what belongs to a run of a program.
const MarkVar = "CORTEX_RUN"
