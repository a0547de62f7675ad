// Package retain deletes what is kept for long enough: conversations that have not changed for the time of a [Period] ([Conversations]), files of which
// nothing speaks ([Files]), and what interrupted deletions have left ([Deletions]). It goes by a [Clock], so that a clock that is set does not delete too
// much.
package retain
