package tests

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	sdk "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// certified writes a certificate for 127.0.0.1 and its key into dir, and returns a configuration with both.
func certified(t *testing.T, dir string) (cert, key string, o *tls.Config) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
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
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})
	writeFile(t, cert, string(certPEM))
	writeFile(t, key, string(keyPEM))
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	o = &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	o.RootCAs.AppendCertsFromPEM(certPEM)
	return cert, key, o
}

// TestA2AOverTLS serves A2A over TLS in three bindings, and has another Cortex use an agent there, by HTTP and by gRPC.
func TestA2AOverTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key, o := certified(t, dir)
	var at [3]string // of HTTP, A2A and gRPC
	for i := range at {
		at[i] = freeAddress(t)
	}
	run := func(args ...string) *exec.Cmd {
		c := exec.Command("cortex", args...)
		c.Env = append(os.Environ(), "SSL_CERT_FILE="+cert, "XDG_CONFIG_HOME="+dir)
		return c
	}
	start := func(args ...string) {
		c := run(args...)
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			if t.Failed() {
				t.Logf("%v:\n%s", args, said.String())
			}
		})
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !is(); <-time.After(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: it does not happen", what)
			}
		}
	}
	one := filepath.Join(dir, "one")
	start("serve", "--data", one, "--http", at[0], "--a2a", at[1], "--a2a-grpc", at[2], "--http-cert", cert, "--http-key", key)
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: o}}
	get := func(url string) (status int, body string) {
		res, err := hc.Get(url) //nolint:noctx // of a test
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(b)
	}
	eventually("it is ready", func() bool {
		status, _ := get("https://" + at[0] + "/readyz")
		return status == http.StatusOK
	})
	_, body := get("https://" + at[1] + "/agents/agent_echo/.well-known/agent-card.json")
	var card a2a.AgentCard
	if err := json.Unmarshal([]byte(body), &card); err != nil || len(card.SupportedInterfaces) != 3 {
		t.Fatalf("the card is %s (%v)", body, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var rpc *a2a.AgentInterface
	for _, i := range card.SupportedInterfaces {
		if i.ProtocolBinding == a2a.TransportProtocolGRPC {
			rpc = i
		} else if !strings.HasPrefix(i.URL, "https://"+at[1]) {
			t.Errorf("the card has the address %s", i.URL)
		}
		c, err := a2aclient.NewFromEndpoints(ctx, []*a2a.AgentInterface{i}, a2aclient.WithJSONRPCTransport(hc), a2aclient.WithRESTTransport(hc),
			a2agrpc.WithGRPCTransport(sdk.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}))))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.SendMessage(ctx, words("hello"))
		if task, ok := got.(*a2a.Task); err != nil || !ok || task.Status.State != a2a.TaskStateCompleted {
			t.Errorf("%s: %+v, %v", i.ProtocolBinding, got, err)
		}
	}
	plain, err := http.Get("http://" + at[1] + "/.well-known/agent-card.json") //nolint:noctx // of a test
	if err == nil {
		if plain.Body.Close(); plain.StatusCode == http.StatusOK {
			t.Error("it answers without TLS as well")
		}
	}

	// A card that names gRPC only, on the same host.
	card.SupportedInterfaces, card.Name = []*a2a.AgentInterface{rpc}, "grpc.echo"
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(&card) }))
	s.TLS = &tls.Config{Certificates: o.Certificates, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(dir, "two.yaml")
	writeFile(t, file, fmt.Sprintf("a2a_agents: [{url: 'https://%s/agents/agent_echo', name: http.echo}, '%s']\n", at[1], s.URL))
	two := filepath.Join(dir, "two")
	start("serve", "--data", two, "--config", file, "--http", "none", "--agents", "none")
	for _, agent := range []string{"http.echo", "grpc.echo"} {
		eventually(agent+" joins", func() bool {
			b, _ := run("agents", "--data", two).Output()
			return bytes.Contains(b, []byte(agent))
		})
		b, err := run("ask", "--data", two, "--agent", agent, "by "+agent).CombinedOutput()
		if err != nil || !bytes.Contains(b, []byte("by "+agent)) {
			t.Errorf("%s: %s (%v)", agent, b, err)
		}
	}
	doctor := run("doctor", "--data", filepath.Join(dir, "three"))
	doctor.Env = append(doctor.Env, "CORTEX_HTTP="+at[0])
	if b, _ := doctor.CombinedOutput(); !bytes.Contains(b, []byte("what answers on "+at[0]+" speaks TLS")) { // it may have other advice, too
		t.Errorf("the doctor says:\n%s", b)
	}
}
