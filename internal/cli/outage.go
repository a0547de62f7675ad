package cli

import (
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// outage tells a registry when the connection to the server is lost and restored. The registry is created after the connection.
type outage struct {
	registry atomic.Pointer[registry.Registry]
}

// onConn is the OnConn callback of a connection.
func (o *outage) onConn(up bool, _ error) {
	r := o.registry.Load()
	switch {
	case r == nil:
	case up:
		r.Resume()
	default:
		r.Pause()
	}
}

// tell sets the registry to tell.
func (o *outage) tell(r *registry.Registry) { o.registry.Store(r) }
