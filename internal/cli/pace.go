package cli

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/client"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxPaced bounds the people and agents whose messages are counted; the one who asked longest ago is forgotten first.
const maxPaced = 10_000

// pace bounds what each person and each agent asks of Cortex by way of A2A and MCP clients, as the gateway does for those who connect to the server: this process
// speaks for all of them there. It is safe for concurrent use.
type pace struct {
	now func() time.Time // nil: time.Now

	mu sync.Mutex
	of recent.Cache[string, *allowance]
}

// allowance is what somebody may ask.
type allowance struct{ things, bytes *rate.Limiter }

// admit counts a message or a cancellation of so many bytes. It returns an error that wraps transport.ErrFull above a limit.
func (p *pace) admit(from string, size int) error {
	most, burst := transport.PersonWork, transport.PersonWorkBurst
	if conversation.IsAgent(from) {
		most, burst = transport.AgentWork, transport.AgentWorkBurst
	}
	p.mu.Lock()
	l, ok := p.of.Get(from)
	if !ok {
		l = &allowance{rate.NewLimiter(rate.Limit(most), burst), rate.NewLimiter(transport.WorkBytes, transport.WorkBytesBurst)}
		for p.of.Put(from, l, 1); p.of.Len() > maxPaced; p.of.Drop() {
		}
	}
	p.mu.Unlock()
	now := time.Now
	if p.now != nil {
		now = p.now
	}
	if !l.bytes.AllowN(now(), size) {
		return fmt.Errorf("%w for you: you may send Cortex %d MiB a second, and %d MiB at once: send it again later", transport.ErrFull, transport.WorkBytes>>20, transport.WorkBytesBurst>>20)
	}
	if l.things.AllowN(now(), 1) {
		return nil
	}
	return fmt.Errorf("%w for you: you may ask Cortex for %d things a second, and for %d at once: ask again later", transport.ErrFull, most, burst)
}

// forMany returns a client for servers by which many people ask, see pace. Only those who have proven who they are have a limit: without keys, all programs
// of the machine are one person.
func (n *node) forMany() *client.Client {
	c := n.client()
	if n.sender != "" {
		c.Admit = n.pace.admit
	}
	return c
}
