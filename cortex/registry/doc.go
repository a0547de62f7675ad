// Package registry knows which agents are there. It makes records from the cards that agents announce on a transport, and
// gives readers immutable snapshots of them, in the order of their ids, so that prompts are stable and a lookup takes no
// lock. What happened to an agent, an [Event], follows from comparing what was announced with what was known, never from what a
// sender calls it.
//
// [Registry.Run] keeps a registry up to date. An instance is gone when it says so, when its lease ends, or when it misses three
// heartbeats; but not while Cortex itself was away, see [Registry.Resume] and [Keeper]. [LoadWellKnown] reads agents that are
// listed although they may not be running.
package registry
