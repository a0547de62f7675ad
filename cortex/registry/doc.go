// Package registry tracks which agents are present. It makes records from the cards that agents announce on a transport, and gives readers immutable
// snapshots, sorted by id, so that prompts are stable and lookups need no lock. An [Event] results from comparing the state before and after a
// change, never from what a sender calls it.
//
// [Registry.Run] keeps a registry up to date. An instance is gone when it says goodbye, when its lease ends, or when it misses three heartbeats; but
// not while Cortex itself was away: see [Registry.Resume] and [Keeper]. [LoadWellKnown] reads agents that are listed although they may not be
// running.
package registry
