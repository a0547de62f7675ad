package rockbot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/bridge/rockbot/rockbottest"
)

// certificates writes a certificate for 127.0.0.1 that has signed itself.
func certificates(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "RabbitMQ of a test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{"ca.pem": {Type: "CERTIFICATE", Bytes: der}, "cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestTLS has Cortex at a RabbitMQ with TLS: its certificate is checked, against the authority in the URL.
func TestTLS(t *testing.T) {
	w := newWorld(t)
	w.o.url = rabbit.TLS()
	w.start()
	w.Until("the certificate is refused", func() bool { return contains(w.Log.String(), "no connection to RabbitMQ.*certificate") })
	w.stop()
	w.o.url = rabbit.TLS() + "?cacertfile=" + url.QueryEscape(filepath.Join(rabbitFolder, "ca.pem"))
	w.serve()
	w.agent(&rockbottest.Program{Name: "Echo", Skills: []string{"echo"}})
	if said := w.Ask(w.name("Echo"), "echo", "ping", ""); said != "ping" {
		t.Errorf("the answer is %q", said)
	}
}
