package console

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/recent"
)

// Bounds of attempts to log in that have no valid token: a second, at once, and of how many clients they are counted.
const (
	attemptRate  = 10
	attemptBurst = 50
	maxClients   = 4096
)

// pacer bounds how often each client may try something, so that none keeps the others from it. The zero pacer is ready to use. It is safe for concurrent
// use.
type pacer struct {
	proxied bool // a proxy is before the console
	mu      sync.Mutex
	of      recent.Cache[string, *rate.Limiter] // by client
}

// allow reports whether the client of a request may try once more.
func (p *pacer) allow(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	client := clientOf(r, p.proxied)
	l, ok := p.of.Get(client)
	if !ok {
		l = rate.NewLimiter(attemptRate, attemptBurst)
		p.of.Put(client, l, 1)
		if p.of.Len() > maxClients {
			p.of.Drop()
		}
	}
	return l.Allow()
}

func tooOften(w http.ResponseWriter) {
	http.Error(w, "too many attempts to log in: try again in a second", http.StatusTooManyRequests)
}

// clientOf returns from where a request comes: an address, or the network that one household or firm has of IPv6. From a proxy in this network it is the
// address that the proxy has added. Where there is none, whoever is in this network could choose it.
func clientOf(r *http.Request, proxied bool) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	from := at.Addr().Unmap()
	if all := r.Header.Values("X-Forwarded-For"); proxied && len(all) > 0 && (from.IsLoopback() || from.IsPrivate()) {
		last := all[len(all)-1]
		last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
		if by, err := netip.ParseAddr(last); err == nil {
			from = by.Unmap().WithZone("")
		}
	}
	if from.Is6() {
		if p, err := from.Prefix(64); err == nil {
			return p.String()
		}
	}
	return from.String()
}
