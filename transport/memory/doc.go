// Package memory is the reference implementation of package transport: everything is in this process and gone with it.
// Use it in tests, and where Cortex is a library and its agents live in the same program.
//
// A [Bus] is one client of its world; [Bus.Dial] makes another one, as another process would be on a network.
package memory
