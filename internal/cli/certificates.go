package cli

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Whoever is shown a certificate that does not hold leaves, and only they would know why: nothing fails in the process that shows it.

const (
	endsSoon         = 7 * 24 * time.Hour // before the end of a certificate, which is said then
	certificateLook  = 10 * time.Second   // between two looks
	certificateEvery = time.Hour          // between two lines of the same in the log
	maxCertificate   = 4 << 20            // bytes of a file
)

// certificate is what the process shows to others, from the file of a setting.
type certificate struct {
	setting, file string
	first         *x509.Certificate // what the file had at the start, if it is not read again; nil: it is
}

// certificates returns those that a service shows: to NATS, and to its clients.
func (s *settings) certificates(http string) []certificate {
	var all []certificate
	if s.tls.Cert != "" {
		all = append(all, certificate{"--tls-cert", s.tls.Cert, leafOf(s.tls.Cert)})
	}
	if http != "" {
		all = append(all, certificate{setting: "--http-cert", file: http})
	}
	return all
}

// leafOf returns the first certificate of a file; nil if it has none, which is said where it is used.
func leafOf(file string) *x509.Certificate {
	text, _, err := document.ReadRegular(file, maxCertificate)
	if err != nil {
		return nil
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			leaf, _ := x509.ParseCertificate(block.Bytes)
			return leaf
		}
	}
	return nil
}

// outdated returns a line if the certificate does not hold at a time, or ends soon, else "".
func (c *certificate) outdated(now time.Time) string {
	leaf, renew := c.first, "renew it, and start again"
	if leaf == nil {
		leaf, renew = leafOf(c.file), "renew it"
	}
	line := ""
	switch {
	case leaf == nil:
		return ""
	case now.After(leaf.NotAfter):
		line = "has ended on " + leaf.NotAfter.UTC().Format(time.DateTime)
	case now.Before(leaf.NotBefore):
		line = "holds only from " + leaf.NotBefore.UTC().Format(time.DateTime)
	case now.After(leaf.NotAfter.Add(-min(endsSoon, leaf.NotAfter.Sub(leaf.NotBefore)/4))): // some hold for a day only
		return fmt.Sprintf("the certificate %s of %s ends on %s UTC: %s", c.file, c.setting, leaf.NotAfter.UTC().Format(time.DateTime), renew)
	default:
		return ""
	}
	return fmt.Sprintf("the certificate %s of %s %s UTC, so that others refuse it: %s", c.file, c.setting, line, renew)
}

// outdated returns a line for each certificate that does not hold, or ends soon.
func outdated(all []certificate) (lines []string) {
	for i := range all {
		if line := all[i].outdated(time.Now()); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// shown are the certificates of a service. Its disk may hang, so it is looked at beside everything else.
type shown struct {
	all   []certificate
	lines atomic.Pointer[[]string] // of the last look
}

// look looks at the certificates, and returns what is said of them.
func (s *shown) look() []string {
	lines := outdated(s.all)
	s.lines.Store(&lines)
	return lines
}

// watch logs what is said of them until ctx ends.
func (s *shown) watch(ctx context.Context, log *slog.Logger) {
	var said []string
	var at time.Time
	for ctx.Err() == nil {
		if lines := s.look(); !slices.Equal(lines, said) || time.Since(at) >= certificateEvery {
			for _, line := range lines {
				log.Warn(line)
			}
			said, at = lines, time.Now()
		}
		_ = rest.For(ctx, certificateLook)
	}
}

// trouble returns what was said of them at the last look.
func (s *shown) trouble() []string {
	if lines := s.lines.Load(); lines != nil {
		return *lines
	}
	return nil
}
