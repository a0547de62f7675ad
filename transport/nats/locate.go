package nats

import (
	"fmt"
	"net"
	"net/url"
)

// locator dials a server where it is now: it may have come back at another address.
type locator struct {
	net.Dialer
	locate func() (string, error)
}

// Dial implements [natsgo.CustomDialer]. The address is the one from before.
func (l *locator) Dial(network, _ string) (net.Conn, error) {
	at, err := l.locate()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil || u.Port() == "" {
		return nil, fmt.Errorf("%s is no address of a NATS server", redact(at))
	}
	return l.Dialer.Dial(network, u.Host)
}
