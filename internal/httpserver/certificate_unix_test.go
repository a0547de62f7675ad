//go:build unix

package httpserver_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
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
		if _, err := httpserver.Certificate(path, key, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the certificate %s: %v, want %q", path, err, want)
		}
		if _, err := httpserver.Certificate(cert, path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the key %s: %v, want %q", path, err, want)
		}
	}
	var log strings.Builder
	o, err := httpserver.Certificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pipe, cert); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	pair, err := o.GetCertificate(nil)
	if err != nil || pair.Leaf.Subject.CommonName != "one" || !strings.Contains(log.String(), "is no file but a pipe") {
		t.Errorf("with a pipe in its place the certificate is %v, %v, and the log says %q", pair.Leaf.Subject, err, log.String())
	}
}
