package nats

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestMemoryOfATenant fills a stream in memory with the credentials of a tenant's orchestrator, also where an older build has made the tenant: it gets no
// more than its part, and another tenant can keep leases.
func TestMemoryOfATenant(t *testing.T) {
	trust := keys(t, "", "acme", "old")
	path := filepath.Join(trust, "tenants", "old", "account.jwt")
	seed, err := os.ReadFile(filepath.Join(trust, "signing.nk"))
	if err != nil {
		t.Fatal(err)
	}
	signing, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeAccountClaims(string(token))
	if err != nil {
		t.Fatal(err)
	}
	claims.Limits.MemoryStorage = jwt.NoLimit
	text, err := claims.Encode(signing)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Auth: trust, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	fill := func(tenant string, most int) int {
		nc, err := natsgo.Connect(srv.URL(), natsgo.UserCredentials(auth.Admin(trust, tenant)))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Storage: jetstream.MemoryStorage}); err != nil {
			t.Fatal(err)
		}
		for n := range most {
			if _, err := js.Publish(t.Context(), "s", make([]byte, 900<<10)); err != nil {
				return n
			}
		}
		return most
	}
	for _, tenant := range []string{"acme", "old"} {
		if n := fill(tenant, 100); n < 10 || n > auth.MaxMemory/(900<<10) {
			t.Errorf("tenant %s stores %d messages in memory, which are %d bytes", tenant, n, n*900<<10)
		}
	}
	if fill("", 10) < 10 {
		t.Error("another tenant has no memory")
	}
}
