package client

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/internal/recent"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxPaced bounds those whose messages are counted; the one who asked longest ago is forgotten first.
const maxPaced = 10_000

// Pace bounds what each of those asks of Cortex for whom a program speaks, as the gateway does for those who connect to the server. Its zero value is ready. It is
// safe for concurrent use.
type Pace struct {
	Now func() time.Time // nil: time.Now; it is set before the first call

	mu sync.Mutex
	of recent.Cache[string, *allowance]
}

// allowance is what somebody may ask.
type allowance struct{ things, bytes *rate.Limiter }

// Admit counts a message or a cancellation of so many bytes of a person, an agent, or a machine whose programs have no keys, which has the limits of an agent.
// It returns an error that wraps transport.ErrFull above a limit. It is for [Client.Admit].
func (p *Pace) Admit(who string, size int) error {
	most, burst := transport.PersonWork, transport.PersonWorkBurst
	if conversation.IsAgent(who) {
		most, burst = transport.AgentWork, transport.AgentWorkBurst
	}
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.of.Get(who)
	if !ok {
		l = &allowance{rate.NewLimiter(rate.Limit(most), burst), rate.NewLimiter(transport.WorkBytes, transport.WorkBytesBurst)}
		for p.of.Put(who, l, 1); p.of.Len() > maxPaced; p.of.Drop() {
		}
	}
	at := now()
	if l.things.TokensAt(at) < 1 { // what is refused takes no bytes
		return fmt.Errorf("%w for you: you may ask Cortex for %d things a second, and for %d at once: ask again later", transport.ErrFull, most, burst)
	}
	if !l.bytes.AllowN(at, size) {
		return fmt.Errorf("%w for you: you may send Cortex %d MiB a second, and %d MiB at once: send it again later", transport.ErrFull, transport.WorkBytes>>20, transport.WorkBytesBurst>>20)
	}
	l.things.AllowN(at, 1)
	return nil
}
