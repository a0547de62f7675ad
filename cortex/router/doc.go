// Package router finds the agents that fit a request, among ten thousand in well under a millisecond. An [Index] reads agents'
// cards as they come and go, and learns from what agents did well. It is deterministic, needs no network and no model files.
package router
