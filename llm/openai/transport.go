package openai

import (
	"net"
	"net/http"
	"time"
)

// httpClient returns a copy of given, or the default with at most so many connections, that follows no redirect.
func httpClient(given *http.Client, most int) *http.Client {
	c := &http.Client{Transport: newTransport(most)}
	if given != nil {
		copied := *given
		c = &copied
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// newTransport bounds what is quick with every healthy endpoint. How long a model may think before its first word is not
// for the transport to know.
func newTransport(most int) *http.Transport {
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

const dialTimeout = 10 * time.Second
