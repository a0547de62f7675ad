package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/certificate"
	"github.com/cortex-orchestrator/cortex/internal/rest"
)

// Whoever is shown a certificate that does not hold leaves, and only they would know why: nothing fails in the process that shows it.

const (
	endsSoon         = 7 * 24 * time.Hour // before the end of a certificate, which is said then
	certificateLook  = 2 * time.Second    // between two looks
	certificateEvery = time.Hour          // between two lines of the same in the log
)

// shownCertificate is what the process shows to others, from the file of a setting.
type shownCertificate struct {
	setting, file string
	is            *certificate.Certificate
}

// certificates returns those that a service shows: to NATS, and to its clients, which is http, nil if it is none, of a file.
func (s *settings) certificates(http *certificate.Certificate, file string) []shownCertificate {
	var all []shownCertificate
	if s.tls.Cert != "" {
		if is, err := certificate.Open(s.tls.Cert, s.tls.Key); err == nil { // or it is said where it is used, or is a pipe
			all = append(all, shownCertificate{"--tls-cert", s.tls.Cert, is})
		}
	}
	if http != nil {
		all = append(all, shownCertificate{"--http-cert", file, http})
	}
	return all
}

// outdated returns a line if the files of the certificate cannot be used, and one if it does not hold at a time, or ends soon.
func (c *shownCertificate) outdated(now time.Time) (lines []string) {
	if err := c.is.Look(); err != nil {
		lines = append(lines, fmt.Sprintf("%s has changed and cannot be used, so that the last one stays: %s", c.setting, oneLine(err)))
	}
	leaf, line := c.is.Leaf(), ""
	switch {
	case now.After(leaf.NotAfter):
		line = "has ended on " + leaf.NotAfter.UTC().Format(time.DateTime)
	case now.Before(leaf.NotBefore):
		line = "holds only from " + leaf.NotBefore.UTC().Format(time.DateTime)
	case now.After(leaf.NotAfter.Add(-min(endsSoon, leaf.NotAfter.Sub(leaf.NotBefore)/4))): // some hold for a day only
		return append(lines, fmt.Sprintf("the certificate %s of %s ends on %s UTC: renew it", c.file, c.setting, leaf.NotAfter.UTC().Format(time.DateTime)))
	default:
		return lines
	}
	return append(lines, fmt.Sprintf("the certificate %s of %s %s UTC, so that others refuse it: renew it", c.file, c.setting, line))
}

// outdated returns the lines of all certificates.
func outdated(all []shownCertificate) (lines []string) {
	for i := range all {
		lines = append(lines, all[i].outdated(time.Now())...)
	}
	return lines
}

// shown are the certificates of a service. Its disk may hang, so it is looked at beside everything else.
type shown struct {
	all   []shownCertificate
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
