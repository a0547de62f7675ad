package cli

import (
	"sync/atomic"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
)

// outage tells a registry when the connection to the server is lost and made again. The registry is there later than the
// connection.
type outage struct {
	registry atomic.Pointer[registry.Registry]
}

// onConn is the OnConn of a connection.
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

// tell makes r the one that is told from now on.
func (o *outage) tell(r *registry.Registry) { o.registry.Store(r) }
