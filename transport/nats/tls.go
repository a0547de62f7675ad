package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/cortex-orchestrator/cortex/internal/certificate"
	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxPEM bounds a file of certificates, in bytes. All authorities of a system take about 300 kB.
const maxPEM = 4 << 20

// TLS names the files of a TLS connection, all in PEM; empty ones are not used.
type TLS struct {
	CA   string // authorities that verify the other side; empty: the system's
	Cert string // the own certificate: required for a server, for a client when the server asks for one
	Key  string // the private key of Cert
}

// config reads the files.
func (t TLS) config(ctx context.Context) (*tls.Config, *x509.CertPool, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if (t.Cert == "") != (t.Key == "") {
		return nil, nil, errors.New("TLS: a certificate and its key go together: give --tls-cert and --tls-key")
	}
	if t.Cert != "" {
		if err := t.show(ctx, c); err != nil {
			return nil, nil, fmt.Errorf("TLS: certificate %s with key %s: %w", t.Cert, t.Key, err)
		}
	}
	if t.CA == "" {
		return c, nil, nil
	}
	b, err := document.Read(ctx, t.CA, maxPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS: authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, nil, fmt.Errorf("TLS: %s has no certificates in PEM", t.CA)
	}
	return c, pool, nil
}

// show has connections show the certificate, and the new one when the files have changed, unless they are pipes, which are read once. The first one is in the
// configuration, where the server looks for what it has to know of it.
func (t TLS) show(ctx context.Context, c *tls.Config) error {
	pair, err := t.pair(ctx)
	if err != nil {
		return err
	}
	c.Certificates = []tls.Certificate{pair}
	is, err := certificate.Open(t.Cert, t.Key)
	if err != nil {
		return nil //nolint:nilerr // it has just been read
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return is.Pair(), nil }
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := is.Pair()
		if now.Leaf.Equal(pair.Leaf) {
			return nil, nil //nolint:nilnil // as it is
		}
		other := c.Clone()
		other.Certificates, other.GetConfigForClient = []tls.Certificate{*now}, nil
		return other, nil
	}
	return nil
}

func (t TLS) pair(ctx context.Context) (tls.Certificate, error) {
	cert, err := document.Read(ctx, t.Cert, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := document.Read(ctx, t.Key, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// client returns a client's configuration; nil when t is empty.
func (t TLS) client(ctx context.Context) (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c, pool, err := t.config(ctx)
	if err == nil {
		c.RootCAs = pool
	}
	return c, err
}

// server returns a server's configuration; nil when t is empty, for a server without TLS.
func (t TLS) server(ctx context.Context) (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" {
		return nil, errors.New("TLS: a server needs a certificate and its key: give --tls-cert and --tls-key")
	}
	c, pool, err := t.config(ctx)
	if err == nil && pool != nil {
		c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return c, err
}
