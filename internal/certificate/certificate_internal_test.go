package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
)

// TestCertificateIsStuck has a certificate on a disk that does not answer. Handshakes go on with the last one, also while others wait for the disk, and get
// the new one once it can be read.
func TestCertificateIsStuck(t *testing.T) {
	last := &tls.Certificate{}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
	answers, reading := make(chan struct{}), make(chan struct{}, 1)
	c := &Certificate{cert: t.TempDir(), pair: last}
	c.load = func() ([]byte, []byte, error) {
		reading <- struct{}{}
		<-answers
		return cert, key, nil
	}
	for range 3 {
		if got := c.Pair(); got != last {
			t.Fatalf("while the disk does not answer: %v, want the last certificate", got)
		}
	}
	<-reading
	c.mu.Lock()
	looked := c.look
	c.mu.Unlock()
	close(answers)
	<-looked
	if got := c.Pair(); got == last {
		t.Error("when the disk answers again: the last certificate, want the new one")
	}
}
