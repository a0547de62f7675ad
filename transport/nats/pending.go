package nats

import (
	"errors"
	"reflect"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// holdsPending returns an error for a version of the server in which [setPending] finds nothing to set.
func holdsPending() error {
	c := reflect.TypeOf((*server.Server).GetClient).Out(0).Elem()
	lock, ok := c.FieldByName("mu")
	out, is := c.FieldByName("out")
	if !ok || !is || lock.Type != reflect.TypeFor[sync.RWMutex]() || out.Type.Kind() != reflect.Struct {
		return errors.New("this version of the server has no bound for what is not read that can be set")
	}
	if most, ok := out.Type.FieldByName("mp"); !ok || most.Type.Kind() != reflect.Int64 {
		return errors.New("this version of the server has no bound for what is not read")
	}
	return nil
}

// setPending sets how many bytes a server keeps for a connection before it closes it. The server has one number for all connections, but a
// field of each: what is enough for an orchestrator is too much as often as a stranger may connect.
func setPending(ns *server.Server, cid uint64, most int) {
	c := reflect.ValueOf(ns.GetClient(cid))
	if c.IsNil() {
		return // it has gone
	}
	lock := (*sync.RWMutex)(c.Elem().FieldByName("mu").Addr().UnsafePointer())
	is := (*int64)(c.Elem().FieldByName("out").FieldByName("mp").Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	*is = int64(most)
}
