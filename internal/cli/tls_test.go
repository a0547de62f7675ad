package cli

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/internal/home/nats"
)

// certify writes a self-signed certificate for this machine, and its key.
func certify(t *testing.T, name string) home.TLS {
	t.Helper()
	return certifyUntil(t, name, time.Now().Add(time.Hour))
}

// certifyUntil is certify with the end of the certificate.
func certifyUntil(t *testing.T, name string, end time.Time) home.TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := home.TLS{Cert: filepath.Join(t.TempDir(), name+".pem"), Key: filepath.Join(t.TempDir(), name+".key")}
	for file, b := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// counting is a proxy for a server that counts connections. It returns its URL.
func counting(t *testing.T, server string, n *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	host := u.Host
	u.Host = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			wg.Go(func() {
				defer from.Close()
				to, err := net.Dial("tcp", host)
				if err != nil {
					return
				}
				wg.Go(func() {
					defer to.Close()
					io.Copy(to, from) //nolint:errcheck // either side may end it
				})
				io.Copy(from, to) //nolint:errcheck // either side may end it
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return u.String()
}

// TestTLSMistakesAreSaidAtOnce runs a chat and a question with wrong certificates. They do not wait for that to change: each tries once.
func TestTLSMistakesAreSaidAtOnce(t *testing.T) {
	own, other := certify(t, "server"), certify(t, "other")
	for name, test := range map[string]struct {
		server home.TLS
		flags  []string
		want   string
	}{
		"no authority":   {own, nil, "not trusted here"},
		"another one":    {own, []string{"--tls-ca", other.Cert}, "not trusted here"},
		"no certificate": {home.TLS{Cert: own.Cert, Key: own.Key, CA: own.Cert}, []string{"--tls-ca", own.Cert}, "does it want a certificate"},
		"no TLS":         {home.TLS{}, []string{"--tls-ca", own.Cert}, "it does not speak TLS"},
	} {
		for _, command := range []string{"ask", "chat"} {
			t.Run(name+", "+command, func(t *testing.T) {
				t.Parallel()
				server, err := nats.Home{}.Start(t.Context(), &home.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: test.server})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Shutdown()
				data := t.TempDir()
				own, err := datadir.Take(t.Context(), data)
				if err != nil {
					t.Fatal(err)
				}
				defer own.Release()
				var tried atomic.Int64
				if err := datadir.LeaveAddress(data, datadir.Address{URL: counting(t, server.URL(), &tried), PID: os.Getpid()}); err != nil {
					t.Fatal(err)
				}
				args := append([]string{command, "--data", data}, test.flags...)
				if command == "ask" {
					args = append(args, "hello")
				}
				var stdout, stderr bytes.Buffer
				code := Run(t.Context(), args, strings.NewReader("hello"), &stdout, &stderr)
				if code != exitFailed || stdout.Len() > 0 || !strings.Contains(stderr.String(), test.want) {
					t.Errorf("%v = %d, %q, %q, want an error with %q", args, code, &stdout, &stderr, test.want)
				}
				// A client without a certificate may see the connection end before it gets the reason, and retries.
				if n := tried.Load(); n > 3 || n > 1 && name != "no certificate" {
					t.Errorf("%v: tried %d times", args, n)
				}
			})
		}
	}
}
