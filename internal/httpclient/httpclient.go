// Package httpclient makes HTTP transports for the endpoints of models.
package httpclient

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns a transport with at most most connections to a host; 0 is no limit. It sets timeouts only for steps that are quick with
// every healthy endpoint: the transport cannot know how long a model may take before its first word.
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
