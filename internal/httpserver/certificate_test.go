package httpserver_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// certify writes a self-signed certificate for the host x and its key, and returns the certificate.
func certify(t *testing.T, name, cert, key string) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"x"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: b}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// newCertificate returns the configurations of a server and of a client that trusts it.
func newCertificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	made := certify(t, "one", cert, key)
	server, err := httpserver.Certificate(cert, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(made)
	return server, &tls.Config{RootCAs: pool, ServerName: "x", Time: func() time.Time { return time.Now().AddDate(0, 0, 1) }}
}

// TestCertificateIsReadAgain checks that a renewed certificate is used without a restart, and that the last one stays while the files cannot be read.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := httpserver.Certificate(cert, key, nil); err == nil || !strings.Contains(err.Error(), "cert.pem") {
		t.Errorf("without files: %v", err)
	}
	certify(t, "one", cert, key)
	var log bytes.Buffer
	o, err := httpserver.Certificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if o.MinVersion != tls.VersionTLS12 {
		t.Errorf("it speaks TLS from version %x on", o.MinVersion)
	}
	changed := time.Now()
	for _, step := range []struct {
		what, want string
		change     func()
	}{
		{"at first", "one", func() {}},
		{"renewed", "two", func() { certify(t, "two", cert, key) }},
		{"half of it is written", "two", func() { certify(t, "three", cert, filepath.Join(dir, "other.pem")) }},
		{"gone", "two", func() { os.Remove(cert) }},
		{"back", "four", func() { certify(t, "four", cert, key) }},
	} {
		step.change()
		changed = changed.Add(time.Minute) // file systems have coarse clocks
		os.Chtimes(cert, changed, changed)
		pair, err := o.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.Subject.CommonName; got != step.want {
			t.Errorf("%s: the certificate is %s, want %s", step.what, got, step.want)
		}
	}
	if n := strings.Count(log.String(), "the last one stays"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, log.String())
	}
}
