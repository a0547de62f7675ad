package webhook

import (
	"context"
	"net/http"
)

// Dial connects to an address as for a host that the operator has not named.
func Dial(c *Client, address string) error {
	conn, err := c.public.(*http.Transport).DialContext(context.Background(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// Swap has the connections for public and for free hosts only told to these functions.
func Swap(c *Client, public, free func(*http.Request)) { c.public, c.free = told(public), told(free) }

type told func(*http.Request)

func (f told) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, http.ErrServerClosed
}
