// Package memory is the reference implementation of package transport, within one process: its content ends with the process. Use it in tests, and
// where Cortex is a library and its agents are in the same program.
//
// A [Bus] is one client of its world; [Bus.Dial] returns another one, which corresponds to another process on a network.
package memory
