// Package openfiles divides the files that this process may open, including connections, among its listeners, its models and its store, so that
// clients and decisions cannot keep the store from opening its files. It also recognises errors of a process without files left.
package openfiles

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

const (
	// The store has some 20 to 60 files open, and a turn some more, such as programs of agents.
	minReserve = 64
	maxReserve = 4096

	minModels = 16
	maxModels = 2048 // connections to models

	minHTTP = 8
	maxHTTP = 256 // connections of each listener: health checks and pages need few
	minBus  = 64
	maxBus  = 64 << 10

	elsewhere = 8192 // the assumed limit on systems that do not report one
)

// Bus returns how many connections the listener of the embedded NATS server may have.
func Bus() int { return bus(Limit()) }

// HTTP returns how many connections each of this many HTTP listeners may have.
func HTTP(listeners int) int { return web(Limit(), listeners) }

// Models returns how many connections to models there may be, and so how many decisions at a time.
func Models() int { return models(Limit()) }

func bus(limit int) int { return min(max(open(limit)*3/4, minBus), maxBus) }

func web(limit, listeners int) int {
	return min(max(open(limit)/4/max(listeners, 1), minHTTP), maxHTTP)
}

// open returns the number of files for the connections of clients.
func open(limit int) int { return limit - min(max(limit/4, minReserve), maxReserve) - models(limit) }

func models(limit int) int { return min(max(limit/8, minModels), maxModels) }

// Few returns an advice when the listeners, each with its minimum of connections, leave the store too few files; otherwise "".
func Few() string { return few(Limit()) }

func few(limit int) string {
	needed := limit
	for needed-bus(needed)-web(needed, 1)-models(needed) < minReserve {
		needed++
	}
	if needed == limit {
		return ""
	}
	return fmt.Sprintf("this process may have %d files open, and needs %d: allow more with `ulimit -n` (LimitNOFILE= in a unit of systemd) and start again", limit, needed)
}

// None reports whether err says that no file can be opened any more, in this process or on the machine. It also looks at the text, since err may
// come from another process.
func None(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || err != nil && strings.Contains(err.Error(), "too many open files")
}

// Advice returns what to do about an error that None recognises.
func Advice() string {
	return fmt.Sprintf("this process may have %d files open: allow more with `ulimit -n` (LimitNOFILE= in a unit of systemd) and start again", Limit())
}
