// Package certificate has a process show a certificate of two files, and another one when these have changed, as they do when it is renewed.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
)

const (
	// maxPEM bounds each of the files, in bytes. A certificate with those of its authorities has some 10 kB.
	maxPEM = 1 << 20
	// lookTime is how long handshakes wait for the files, which may be on a disk that does not answer.
	lookTime = time.Second
	// lookEach is after what time a handshake has the files read that do not seem to have changed: clocks of file systems are coarse, and some programs set them.
	lookEach = 2 * time.Second
)

// Certificate is a certificate with its private key, of two PEM files. When the files change, new connections get the new one; while they cannot be used, the
// last one. Its methods are safe for concurrent use.
type Certificate struct {
	cert, key string
	load      func() (cert, key []byte, err error)

	mu   sync.Mutex
	pair *tls.Certificate
	of   [2]string     // what the files had of which pair is
	at   [2]stamp      // likewise, when they were read last
	read time.Time     // then
	err  error         // why they could not be used then
	look chan struct{} // closed when the files have been looked at; nil: nobody looks
	late time.Time     // when nobody waits for that any more
}

// stamp tells that a file has not changed, mostly.
type stamp struct {
	at   time.Time
	size int64
}

// Open reads the files, which are regular: a handshake does not wait for a pipe.
func Open(cert, key string) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key}
	c.load = c.loadFiles
	if err := c.Look(); err != nil {
		return nil, err
	}
	return c, nil
}

// Server returns a server's configuration for TLS 1.2 and later.
func (c *Certificate) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Pair(), nil }}
}

// Leaf returns the certificate that is used.
func (c *Certificate) Leaf() *x509.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair.Leaf
}

// Look reads the files, and returns why they cannot be used, nil if they can. It waits for their disk.
func (c *Certificate) Look() error {
	at := c.stamps()
	cert, key, err := c.load()
	c.mu.Lock()
	defer c.mu.Unlock()
	of := [2]string{string(cert), string(key)}
	if err == nil && (c.pair == nil || of != c.of) {
		var pair tls.Certificate
		if pair, err = tls.X509KeyPair(cert, key); err == nil {
			c.pair, c.of = &pair, of
		}
	}
	c.at, c.read, c.err = at, time.Now(), nil
	if err != nil {
		c.err = fmt.Errorf("the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	return c.err
}

// stamps returns those of the files; zero for one that is not there.
func (c *Certificate) stamps() (all [2]stamp) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			all[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return all
}

func (c *Certificate) loadFiles() (cert, key []byte, err error) {
	if cert, _, err = document.ReadRegular(c.cert, maxPEM); err != nil {
		return nil, nil, err
	}
	key, _, err = document.ReadRegular(c.key, maxPEM)
	return cert, key, err
}

// Pair returns the certificate for a handshake. One handshake looks at the files for all that come meanwhile. When that takes long, they go on with the last
// certificate.
func (c *Certificate) Pair() *tls.Certificate {
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
	return c.pair
}

// renew reads the files if they may have changed, and closes looked.
func (c *Certificate) renew(looked chan struct{}) {
	at := c.stamps()
	c.mu.Lock()
	same := at == c.at && time.Since(c.read) < lookEach
	c.mu.Unlock()
	if !same {
		_ = c.Look() // whoever watches it tells
	}
	c.mu.Lock()
	c.look = nil
	c.mu.Unlock()
	close(looked)
}
