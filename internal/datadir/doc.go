// Package datadir is a data folder, for all processes that use it: which of them holds it ([Take]), where that one listens and how it was set ([Find]),
// who comes next when it ends ([Queue], [AnnounceTakeover]), whether its store is the one that was there ([MarkStore]), and what was damaged and set
// aside ([ListAside]).
//
// A running chat or service holds the lock of its folder and leaves its address there, so that other commands find it.
package datadir
