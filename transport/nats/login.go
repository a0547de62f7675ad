package nats

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// login returns the connection options that authenticate the bus, and its identity; nil when that is unknown.
func login(ctx context.Context, o *Options) ([]natsgo.Option, *auth.Identity, error) {
	var opts []natsgo.Option
	creds := o.Creds
	switch {
	case o.Server != nil:
		opts = append(opts, natsgo.InProcessServer(o.Server))
		if creds == "" && o.Server.auth != "" {
			creds = auth.Admin(o.Server.auth, o.Tenant)
		}
	default:
		c, err := o.TLS.client(ctx)
		if err != nil {
			return nil, nil, err
		}
		if c != nil {
			opts = append(opts, natsgo.Secure(c))
		}
	}
	if creds == "" {
		return opts, nil, nil
	}
	who, err := auth.Read(creds)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: credentials: %w", transport.ErrForbidden, err)
	}
	opts = append(opts, natsgo.UserCredentials(creds))
	if who.Limited() {
		opts = append(opts, natsgo.CustomInboxPrefix(auth.Replies(who)))
	}
	return opts, who, nil
}

// errUnasked is the error for a server that asks for no credentials although the user has some. Such a server lets everybody in, and may be an
// impostor at the server's address.
var errUnasked = errors.New("it asks nobody for credentials")

// errForged is the error for a server that asks for the signature of something else than a nonce. The signature may be what others than servers are shown,
// such as that of a bearer token, and whoever has asked for it could be its user for ever.
var errForged = errors.New("it asks for the signature of something else than a random word")

// isImpostor reports whether err is that of a server that cannot be the one that the credentials are for.
func isImpostor(err error) bool { return errors.Is(err, errUnasked) || errors.Is(err, errForged) }

// maxNonce bounds what a server may ask to be signed, in bytes. Servers ask for 15.
const maxNonce = 128

// checkNonce returns an error if a server may not have a nonce signed. Nothing that is signed for anybody else is one word.
func checkNonce(nonce []byte) error {
	switch {
	case len(nonce) == 0:
		return errUnasked
	case len(nonce) > maxNonce || bytes.ContainsFunc(nonce, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errForged
	}
	return nil
}

// expectQuestion makes the client refuse a server that does not ask for a signature, when there are credentials, or not for that of a nonce; see
// natsgo.Option. The client refuses it before it sends anything.
func (b *Bus) expectQuestion(o *natsgo.Options) error {
	sign := o.SignatureCB
	if sign == nil {
		return nil
	}
	o.SignatureCB = func(nonce []byte) ([]byte, error) {
		err := checkNonce(nonce)
		if err == nil {
			return sign(nonce)
		}
		if b.nc.failed.Swap(&err) == nil && b.dialed.Load() {
			b.log.Warn("nats server is not connected to", "err", err)
			b.reportRefused()
		}
		return nil, err
	}
	return nil
}

// fullPatience is how long connectFirst retries a server that is full, since clients come and go. One that takes a connection and does not answer in time is
// tried slowTries times: it may have much to do.
const (
	fullPatience = 3 * time.Second
	slowTries    = 3
)

// connectFirst makes the first connection.
func connectFirst(ctx context.Context, o *Options, opts []natsgo.Option) (*natsgo.Conn, error) {
	end := time.Now().Add(fullPatience)
	for n := 0; ; n++ {
		nc, err := natsgo.Connect(o.URL, opts...)
		full, slow := err != nil && isFull(o, err) && time.Now().Before(end), err != nil && isSlow(err) && n < slowTries-1
		if !full && !slow {
			return nc, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(reconnectDelay(n)):
		}
	}
}

// isFull reports whether a server has said that it is full, or has closed the connection silently, as ours does when it has no file left to say so.
func isFull(o *Options, err error) bool {
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	return errors.Is(err, natsgo.ErrMaxConnectionsExceeded) || strings.Contains(err.Error(), "maximum connections exceeded") || ended && o.TLS == (TLS{})
}

// isSlow reports whether a server has not answered in time.
func isSlow(err error) bool {
	var silent net.Error
	return errors.Is(err, natsgo.ErrTimeout) || errors.As(err, &silent) && silent.Timeout()
}

// dialError returns the reason why no connection was made, with advice. reached says that a program has accepted a connection.
func dialError(o *Options, err error, reached bool) error {
	addr := redact(o.URL)
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	unavailable := func(what string) error {
		return fmt.Errorf("%w: NATS server %s: %s: %w", transport.ErrUnavailable, addr, what, err)
	}
	switch {
	case isFull(o, err):
		return unavailable("it is full, or ends connections at once: try again later, end some of those that use the same key, or allow it more files (`ulimit -n`)")
	case errors.Is(err, errUnasked):
		return fmt.Errorf("%w: NATS server %s asks nobody for credentials: it is not the one that %s is for; leave --creds out if it is to be joined", transport.ErrForbidden, addr, o.Creds)
	case errors.Is(err, errForged):
		return fmt.Errorf("%w: NATS server %s: %w: it is not the one that %s is for, and somebody may be between here and that", transport.ErrForbidden, addr, errForged, o.Creds)
	case refusesLogin(err) && o.Creds == "":
		return fmt.Errorf("%w: NATS server %s wants to know who you are: give credentials with --creds (`cortex auth` makes them): %w",
			transport.ErrForbidden, addr, err)
	case refusesLogin(err):
		return fmt.Errorf("%w: NATS server %s does not accept %s: it is for another server, or no longer: %w", transport.ErrForbidden, addr, o.Creds, err)
	case errors.As(err, &unknown):
		return unavailable("its certificate is from an authority that is not trusted here: name that with --tls-ca FILE")
	case errors.As(err, &host):
		return unavailable("its certificate is for another host: use the name that it has, or have one made for this")
	case errors.As(err, &invalid):
		return unavailable("its certificate does not hold: have a new one made")
	case errors.Is(err, natsgo.ErrSecureConnWanted), errors.As(err, &record):
		return unavailable("it does not speak TLS: use nats:// without --tls-ca, --tls-cert and --tls-key, or start it with --tls-cert and --tls-key")
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"):
		return unavailable("it refuses the TLS connection: does it want a certificate (--tls-cert and --tls-key), or one from another authority?")
	case o.TLS != (TLS{}) && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return unavailable("it ended the TLS connection: does it want a certificate (--tls-cert and --tls-key), or one from another authority?")
	case o.URL == "":
		return fmt.Errorf("%w: the NATS server in this process: %w", transport.ErrUnavailable, err)
	}
	if reached && isSlow(err) {
		return unavailable("it takes connections and does not answer: its process may be stopped, or has too much to do")
	}
	return fmt.Errorf("%w: no NATS server answers at %s: start one with `cortex serve`, or check --nats: %w", transport.ErrUnavailable, addr, err)
}

// refusesLogin reports whether err is a server's refusal of the credentials.
func refusesLogin(err error) bool {
	refusals := []error{natsgo.ErrAuthorization, natsgo.ErrAuthExpired, natsgo.ErrAuthRevoked, natsgo.ErrAccountAuthExpired}
	return slices.ContainsFunc(refusals, func(e error) bool { return errors.Is(err, e) })
}
