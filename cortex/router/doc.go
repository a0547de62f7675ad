// Package router finds the agents that fit a request, among ten thousand in well under a millisecond. An [Index] reads agents' cards as they come and
// go, and learns from evidence, the requests that agents answered well. It is deterministic and needs neither network nor model files.
package router
