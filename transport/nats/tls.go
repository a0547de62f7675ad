package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS names the files of a TLS connection, all in PEM; empty ones are not used.
type TLS struct {
	CA   string // certificates that the other side is checked by; empty: those of the system
	Cert string // the certificate to show: a server needs one, a client where the server asks for it
	Key  string // the private key of Cert
}

// config reads the files.
func (t TLS) config() (*tls.Config, *x509.CertPool, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if (t.Cert == "") != (t.Key == "") {
		return nil, nil, errors.New("TLS: a certificate and its key go together: give --tls-cert and --tls-key")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("TLS: certificate %s with key %s: %w", t.Cert, t.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.CA == "" {
		return c, nil, nil
	}
	b, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS: authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, nil, fmt.Errorf("TLS: %s has no certificates in PEM", t.CA)
	}
	return c, pool, nil
}

// client returns what a client connects with; nil when there is nothing to say.
func (t TLS) client() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c, pool, err := t.config()
	if err == nil {
		c.RootCAs = pool
	}
	return c, err
}

// server returns what a server accepts connections with; nil when it does so without TLS.
func (t TLS) server() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" {
		return nil, errors.New("TLS: a server needs a certificate and its key: give --tls-cert and --tls-key")
	}
	c, pool, err := t.config()
	if err == nil && pool != nil {
		c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return c, err
}
