// Package storecheck reads the files of an embedded NATS server's store while no server has them open, and sets aside what is damaged in
// them. It is for package nats, which does so before each start, and for commands that look into a store.
//
// A server trusts its files: of a block with one damaged record it drops all the records behind it, without a word, and by a number
// that is not what it was it allocates gigabytes or delivers nothing. So each record is read here first, one block at a time. A
// record whose checksum does not fit is cut out and kept in another folder; the others of its block stay. Files that the server can
// derive from the records, and whose damage cannot be seen, are used again only if they are what a proper end has left.
//
// What is missing altogether only a memory can tell: a small file beside the store, see [Memory], has the last sequence of each
// stream, how many messages it has and where its files end and, from a proper end to the next start, the size of each file.
//
// The layout is that of the server's version in go.mod. A test writes with the server and reads here.
package storecheck
