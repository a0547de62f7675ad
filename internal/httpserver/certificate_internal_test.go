package httpserver

import (
	"crypto/tls"
	"log/slog"
	"testing"
)

// TestCertificateIsStuck has a certificate on a disk that does not answer. Handshakes go on with the last one, also while others wait for the disk, and get
// the new one once it can be read.
func TestCertificateIsStuck(t *testing.T) {
	last, next := &tls.Certificate{}, tls.Certificate{OCSPStaple: []byte("next")}
	answers, reading := make(chan struct{}), make(chan struct{}, 1)
	c := &certificate{cert: t.TempDir(), logger: slog.New(slog.DiscardHandler), pair: last}
	c.load = func() (tls.Certificate, error) {
		reading <- struct{}{}
		<-answers
		return next, nil
	}
	for range 3 {
		got, err := c.get(nil)
		if err != nil || got != last {
			t.Fatalf("while the disk does not answer: %v, %v, want the last certificate", got, err)
		}
	}
	<-reading
	c.mu.Lock()
	looked := c.look
	c.mu.Unlock()
	close(answers)
	<-looked
	got, err := c.get(nil)
	if err != nil || string(got.OCSPStaple) != "next" {
		t.Errorf("when the disk answers again: %v, %v, want the new certificate", got, err)
	}
}
