// Package storage is the contract between Cortex and its stores: the log of every conversation ([Store]), and, where a store can keep them,
// snapshots, outlines, notes, the spend log, erasure and a clock of its own: each is an interface in storage.go or outline.go. The implementations
// memstore and jetstore pass the suite of package storetest unchanged, which tests those interfaces that a store has, except [Clock]; programs add
// others through app.Options.Stores. A program that only reads or writes a store needs no orchestrator.
package storage
