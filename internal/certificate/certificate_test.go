package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/certificate"
)

// certify writes a self-signed certificate for the host x and its key.
func certify(t *testing.T, name, cert, key string) {
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
}

// TestCertificateIsReadAgain checks that a renewed certificate is used without a restart, also by a file of the same size and time, and that the last one
// stays while the files cannot be used, which is told.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if _, err := certificate.Open(cert, key); err == nil || !strings.Contains(err.Error(), "cert.pem") {
		t.Errorf("without files: %v", err)
	}
	certify(t, "one", cert, key)
	c, err := certificate.Open(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if v := c.Server().MinVersion; v != tls.VersionTLS12 {
		t.Errorf("it speaks TLS from version %x on", v)
	}
	changed := time.Now()
	for _, step := range []struct {
		what, want, why string
		change          func()
	}{
		{"at first", "one", "", func() {}},
		{"renewed", "two", "", func() { certify(t, "two", cert, key) }},
		{"half of it is written", "two", "private key does not match", func() { certify(t, "three", cert, filepath.Join(dir, "other.pem")) }},
		{"no certificate", "two", "failed to find any PEM data", func() { write(t, cert, "none") }},
		{"gone", "two", "no such file", func() { os.Remove(cert) }},
		{"back", "four", "", func() { certify(t, "four", cert, key) }},
	} {
		step.change()
		changed = changed.Add(time.Minute) // file systems have coarse clocks
		os.Chtimes(cert, changed, changed)
		pair, err := c.Server().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pair.Leaf.Subject.CommonName; got != step.want || c.Leaf() != pair.Leaf {
			t.Errorf("%s: the certificate is %s, want %s", step.what, got, step.want)
		}
		if err := c.Look(); (err == nil) != (step.why == "") || err != nil && !strings.Contains(err.Error(), step.why) {
			t.Errorf("%s: %v, want %q", step.what, err, step.why)
		}
	}
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, strings.Repeat("x", len(text)))
	os.Chtimes(cert, changed, changed)
	if err := c.Look(); err == nil {
		t.Error("a file of the same size and time has not changed")
	}
	write(t, cert, string(text))
	os.Chtimes(cert, changed, changed)
	if err := c.Look(); err != nil || c.Leaf().Subject.CommonName != "four" {
		t.Errorf("when it is back: %v, %v", c.Leaf().Subject, err)
	}
}

// TestFileOfTheSameTime checks that a handshake, some time later, has a certificate whose file has the size and the time of the one before.
func TestFileOfTheSameTime(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	other, otherKey := filepath.Join(dir, "other.pem"), filepath.Join(dir, "other.key.pem")
	certify(t, "one", cert, key)
	size := func(file string) int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for certify(t, "two", other, otherKey); size(other) != size(cert) || size(otherKey) != size(key); { // signatures differ in size
		certify(t, "two", other, otherKey)
	}
	at := time.Now()
	for _, file := range []string{cert, key, other, otherKey} {
		os.Chtimes(file, at, at)
	}
	c, err := certificate.Open(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(other, cert), os.Rename(otherKey, key)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); c.Pair().Leaf.Subject.CommonName != "two"; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("handshakes have the old certificate")
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
