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

const (
	// maxPEM bounds each of the files, in bytes. A certificate with those of its authorities has some 10 kB.
	maxPEM = 1 << 20
	// lookTime is how long handshakes wait for the files, which may be on a disk that does not answer.
	lookTime = time.Second
)

// Certificate returns a server's configuration for TLS 1.2 and later with the certificate and the private key of two PEM files. When the files change, as
// they do when a certificate is renewed, new connections get the new one; while they cannot be read, the last one, and the logger, which may be nil, is told.
func Certificate(cert, key string, logger *slog.Logger) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, logger: logger, failing: rate.Sometimes{First: 1, Interval: toldTime}}
	c.logger = cmp.Or(c.logger, slog.New(slog.DiscardHandler))
	c.load = c.loadFiles
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

	load func() (tls.Certificate, error)

	mu   sync.Mutex
	pair *tls.Certificate
	of   [2]time.Time  // when the files were changed from which pair was read
	look chan struct{} // closed when the files have been looked at; nil: nobody looks
	late time.Time     // when nobody waits for that any more
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair, c.of = &pair, at
	return nil
}

// loadFiles reads the files, which are regular: a handshake does not wait for a pipe.
func (c *certificate) loadFiles() (pair tls.Certificate, err error) {
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

// get implements [tls.Config].GetCertificate. One handshake looks at the files for all that come meanwhile. When that takes long, they go on with the last
// certificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	if c.look == nil {
		c.look, c.late = make(chan struct{}), time.Now().Add(lookTime)
		go c.renew(c.look)
	}
	looked, wait := c.look, time.NewTimer(time.Until(c.late))
	c.mu.Unlock()
	defer wait.Stop()
	select {
	case <-looked:
	case <-wait.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, nil
}

// renew reads the files if they have changed, and closes looked.
func (c *certificate) renew(looked chan struct{}) {
	at := c.changed()
	c.mu.Lock()
	same := at == c.of
	c.mu.Unlock()
	if !same {
		if err := c.read(at); err != nil {
			c.failing.Do(func() {
				c.logger.Warn("the certificate has changed and cannot be used: the last one stays", "err", err)
			})
		}
	}
	c.mu.Lock()
	c.look = nil
	c.mu.Unlock()
	close(looked)
}
