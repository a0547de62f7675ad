// Package storage is what Cortex wants of a store: the log of every conversation ([Store]), and beside it, where a store can, snapshots,
// outlines, notes, an account of each day, and that a conversation can be erased. Implementations live in cortex/memstore and cortex/jetstore; each
// passes the suite of package storetest unchanged. A program has others by app.Options.Stores. Whoever only reads or writes a store needs no orchestrator for it.
package storage
