package tests

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports that freeAddress tries: one after the other, from one at random.
var (
	firstPort  = rand.Uint32()
	triedPorts atomic.Uint32
)

// freeAddress returns a local address at which nobody listens. Its port is below those that the system chooses, so that no connection and no other
// listener of this machine gets it before a process listens there, or while that process is down.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := "127.0.0.1:" + strconv.Itoa(int(20_000+(firstPort+triedPorts.Add(1))%12_000))
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			l.Close() //nolint:errcheck // nobody has connected
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
