package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/cortex-orchestrator/cortex/llm"
)

// NetworkError returns the error of a call without a response, with advice. A server without TLS, or with an untrusted certificate, will not accept a
// retry either.
func NetworkError(err error, u *url.URL) *llm.Error {
	if e, ok := errors.AsType[*llm.Error](err); ok { // of a Bearer: there is no token
		own := *e
		return &own
	}
	e := &llm.Error{Kind: llm.ErrUnavailable, Err: err}
	server := u.Scheme + "://" + u.Host
	var (
		dns      *net.DNSError
		op       *net.OpError
		inner    *url.Error
		timeout  net.Error
		unknown  x509.UnknownAuthorityError
		wrong    *tls.CertificateVerificationError
		noTLS    tls.RecordHeaderError
		isTLS    = errors.As(err, &unknown) || errors.As(err, &wrong)
		plain    = errors.As(err, &noTLS) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
		timesOut = errors.As(err, &timeout) && timeout.Timeout()
	)
	text := err.Error()
	if errors.As(err, &inner) { // without the URL, which the message has
		text = inner.Err.Error()
	}
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		e.Message = fmt.Sprintf("the proxy that the environment sets (HTTPS_PROXY, HTTP_PROXY) cannot be used for %s: %s", server, text)
	case errors.As(err, &dns):
		e.Message = fmt.Sprintf("no such host as %s: is base_url right, and the network up?", u.Hostname())
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Message = fmt.Sprintf("connection refused: is the server at %s running?", server)
	case plain:
		e.Kind = llm.ErrBadRequest
		e.Message = fmt.Sprintf("TLS: %s does not speak it: should base_url begin with http://?", u.Host)
	case isTLS:
		e.Kind = llm.ErrBadRequest
		e.Message = fmt.Sprintf("TLS: the certificate of %s is not accepted: %s", u.Host, text)
	case strings.Contains(text, "tls: "):
		e.Message = fmt.Sprintf("TLS: with %s: %s", u.Host, text)
	case timesOut:
		e.Message = fmt.Sprintf("%s could not be reached in time: is base_url right, and the network up?", server)
	default:
		e.Message = fmt.Sprintf("the connection to %s broke off before there was an answer: %s", server, text)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		e.Err = errors.New(text) // a timeout of the connection must not look like the end of the caller's context
	}
	return e
}
