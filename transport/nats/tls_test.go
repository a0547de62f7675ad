package nats

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cortex-orchestrator/cortex/transport"
)

// authority makes certificates.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.issue(t, "ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// issue writes name.pem and name.key.pem: the authority's own certificate, or one for a host.
func (a *authority) issue(t *testing.T, name string, change func(c *x509.Certificate)) TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if a.cert == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
		a.cert, a.key = c, key
	} else {
		change(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string]*pem.Block{a.file(name): {Type: "CERTIFICATE", Bytes: der}, a.file(name + ".key"): {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return TLS{Cert: a.file(name), Key: a.file(name + ".key")}
}

func here(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }

func (a *authority) with(t TLS) TLS {
	t.CA = a.file("ca")
	return t
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	good := ca.issue(t, "server", here)
	elsewhere := ca.issue(t, "elsewhere", func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere.example"} })
	old := ca.issue(t, "old", func(c *x509.Certificate) { here(c); c.NotAfter = time.Now().Add(-time.Minute) })
	client, stranger := ca.issue(t, "client", here), other.issue(t, "client", here)
	for _, c := range []struct {
		name           string
		server, client TLS
		scheme         string // "": the server's own
		want           string // in the error; "": none
	}{
		{"trusted", good, ca.with(TLS{}), "", ""},
		{"the server asks for TLS", good, ca.with(TLS{}), "nats://", ""},
		{"both show certificates", ca.with(good), ca.with(client), "", ""},
		{"unknown authority", good, TLS{}, "", "--tls-ca"},
		{"unknown authority without asking for TLS", good, TLS{}, "nats://", "--tls-ca"},
		{"another authority", good, other.with(TLS{}), "", "--tls-ca"},
		{"another host", elsewhere, ca.with(TLS{}), "", "another host"},
		{"expired", old, ca.with(TLS{}), "", "does not hold"},
		{"TLS to a plain server", TLS{}, ca.with(TLS{}), "", "does not speak TLS"},
		{"tls:// to a plain server", TLS{}, TLS{}, "tls://", "does not speak TLS"},
		{"no certificate to show", ca.with(good), ca.with(TLS{}), "", "--tls-cert"},
		{"a stranger's certificate", ca.with(good), ca.with(stranger), "", "--tls-cert"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: c.server})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Shutdown()
			url := srv.URL()
			if c.scheme != "" {
				_, addr, _ := strings.Cut(url, "://")
				url = c.scheme + addr
			}
			b, err := Dial(t.Context(), &Options{URL: url, TLS: c.client})
			if err == nil {
				defer func() { _ = b.Close() }()
			}
			if c.want != "" {
				wantRefusal(t, "Dial", err, transport.ErrUnavailable, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.nc.TLSConnectionState(); err != nil {
				t.Errorf("the connection is not TLS: %v", err)
			}
			inside, err := Dial(t.Context(), &Options{Server: srv})
			if err != nil {
				t.Fatalf("Dial in process = %v", err)
			}
			defer func() { _ = inside.Close() }()
			if err := inside.Healthy(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTLSFiles(t *testing.T) {
	ca := newAuthority(t)
	good, another := ca.issue(t, "server", here), ca.issue(t, "another", here)
	for _, c := range []struct {
		name   string
		tls    TLS
		server bool
		want   string
	}{
		{"no key", TLS{Cert: good.Cert}, false, "go together"},
		{"no certificate", TLS{Key: good.Key}, true, "--tls-cert"},
		{"another's key", TLS{Cert: good.Cert, Key: another.Key}, false, good.Cert},
		{"no authorities", TLS{CA: good.Key}, false, "no certificates"},
		{"no file", TLS{CA: ca.file("none")}, false, "none.pem"},
		{"a server without", ca.with(TLS{}), true, "a server needs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			if c.server {
				_, err = StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: c.tls})
			} else {
				_, err = Dial(t.Context(), &Options{URL: "nats://127.0.0.1:1", TLS: c.tls})
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
}

// TestTLSIsReadAgain renews the certificates of a server and of those who connect, while all go on: new connections show the new ones.
func TestTLSIsReadAgain(t *testing.T) {
	ca := newAuthority(t)
	server, client := ca.issue(t, "server", here), ca.issue(t, "client", here)
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: ca.with(server)})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	other := newAuthority(t)
	dial := func(of *authority) error {
		b, err := Dial(t.Context(), &Options{URL: srv.URL(), TLS: of.with(client)})
		if err == nil {
			_ = b.Close()
		}
		return err
	}
	if err := dial(ca); err != nil {
		t.Fatal(err)
	}
	renewed := other.issue(t, "server", here)
	for from, to := range map[string]string{renewed.Cert: server.Cert, renewed.Key: server.Key} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); dial(other) != nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server shows the old certificate: %v", dial(other))
		}
	}
	wantRefusal(t, "Dial", dial(ca), transport.ErrUnavailable, "--tls-ca")
	config, err := ca.with(client).client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ca.issue(t, "client", here) // the same files
	for end := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		is, err := config.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !is.Leaf.Equal(config.Certificates[0].Leaf) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a client shows the old certificate")
		}
	}
}
