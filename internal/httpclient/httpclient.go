// Package httpclient makes the connections to models' endpoints.
package httpclient

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport with at most so many connections to a host; 0 is any number. It bounds what is quick with every healthy
// endpoint. How long a model may think before its first word is not for the transport to know.
func NewTransport(most int) *http.Transport {
	const dialTimeout = 10 * time.Second
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    16,
		MaxConnsPerHost:        most,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		// Without pings, a connection that died silently is used for every call until the kernel gives it up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}
