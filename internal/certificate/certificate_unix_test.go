//go:build unix

package certificate_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/certificate"
)

// TestCertificateIsAFile checks that nothing is waited for and nothing endless is read in the place of a certificate, neither at first nor after a change.
func TestCertificateIsAFile(t *testing.T) {
	dir := t.TempDir()
	cert, key, pipe := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "pipe.pem")
	certify(t, "one", cert, key)
	large := filepath.Join(dir, "large.pem")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, nil, 0o600), os.Truncate(large, 2<<20)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "is no file but a pipe", large: "too large", "/dev/zero": "is no file but a pipe"} {
		if _, err := certificate.Open(path, key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the certificate %s: %v, want %q", path, err, want)
		}
		if _, err := certificate.Open(cert, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the key %s: %v, want %q", path, err, want)
		}
	}
	c, err := certificate.Open(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, cert); err != nil {
		t.Fatal(err)
	}
	if err := c.Look(); err == nil || !strings.Contains(err.Error(), "is no file but a pipe") || c.Pair().Leaf.Subject.CommonName != "one" {
		t.Errorf("with a pipe in its place the certificate is %v, and %v", c.Leaf().Subject, err)
	}
}
