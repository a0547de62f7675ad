package httpserver

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

// maxPEM bounds each of the files, in bytes. A certificate with those of its authorities has some 10 kB.
const maxPEM = 1 << 20

// Certificate returns a server's configuration for TLS 1.2 and later with the certificate and the private key of two PEM files. When the files change, as
// they do when a certificate is renewed, new connections get the new one; while they cannot be read, the last one, and the logger, which may be nil, is told.
func Certificate(cert, key string, logger *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, logger: logger, failing: rate.Sometimes{First: 1, Interval: toldTime}}
	c.logger = cmp.Or(c.logger, slog.New(slog.DiscardHandler))
	if err := c.read(c.changed()); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

// certificate is a certificate in files.
type certificate struct {
	cert, key string
	logger    *slog.Logger
	failing   rate.Sometimes // limits the log lines

	mu   sync.Mutex
	pair *tls.Certificate
	of   [2]time.Time // when the files were changed from which pair was read
}

// changed returns when the files were changed last; zero for one that is not there.
func (c *certificate) changed() (at [2]time.Time) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			at[i] = info.ModTime()
		}
	}
	return at
}

// read reads the files, which were changed at this time.
func (c *certificate) read(at [2]time.Time) error {
	pair, err := c.load()
	if err != nil {
		return fmt.Errorf("the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	c.pair, c.of = &pair, at
	return nil
}

// load reads the files, which are regular: a handshake does not wait for a pipe.
func (c *certificate) load() (pair tls.Certificate, err error) {
	cert, _, err := document.ReadRegular(c.cert, maxPEM)
	if err != nil {
		return pair, err
	}
	key, _, err := document.ReadRegular(c.key, maxPEM)
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair(cert, key)
}

// get implements [tls.Config].GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	at := c.changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at != c.of {
		if err := c.read(at); err != nil {
			c.failing.Do(func() {
				c.logger.Warn("the certificate has changed and cannot be used: the last one stays", "err", err)
			})
		}
	}
	return c.pair, nil
}
