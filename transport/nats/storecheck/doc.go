// Package storecheck reads the files of an embedded NATS server's store while no server has them open, and sets aside what is damaged. Package nats
// uses it before each start; so do commands that look into a store.
//
// A server trusts its files: after one damaged record it silently drops all later records of that block, and a damaged number can make it allocate
// gigabytes or deliver nothing. So this package reads every record first, one block at a time. It cuts out a record whose checksum does not match
// and keeps it in another folder; the others of its block stay. Files that the server can derive from the records, and whose damage cannot be seen,
// are kept only if they are unchanged since a proper shutdown.
//
// Messages that are missing without a trace only a memory can reveal: a small file beside the store, see [Memory], with the last sequence of each
// stream, its number of messages, where its files end and, from a proper shutdown to the next start, the size of each file.
//
// The layout of the files is that of the server's version in go.mod. A test writes with the server and reads here.
package storecheck
