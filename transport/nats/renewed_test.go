package nats

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// expiring has the credentials in a file end soon.
func expiring(t *testing.T, dir, file string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	seed, err := os.ReadFile(filepath.Join(dir, "tenants", "_", "account.nk"))
	must(err)
	account, err := nkeys.FromSeed(seed)
	must(err)
	b, err := os.ReadFile(file)
	must(err)
	token, err := jwt.ParseDecoratedJWT(b)
	must(err)
	own, err := jwt.ParseDecoratedUserNKey(b)
	must(err)
	private, err := own.Seed()
	must(err)
	claims, err := jwt.DecodeUserClaims(token)
	must(err)
	claims.Expires = time.Now().Add(10 * time.Second).Unix() // by then a slow machine, too, has connected and subscribed
	token, err = claims.Encode(account)
	must(err)
	b, err = jwt.FormatUserConfig(token, private)
	must(err)
	must(os.WriteFile(file, b, 0o600))
}

// TestCredentialsRenewed has the credentials of a connected agent end, by time or by revocation: it is told what to do. When there are new ones in the
// same file, it is connected again, gets the task that waits for it, and sends its result.
func TestCredentialsRenewed(t *testing.T) {
	for _, how := range []string{"expired", "revoked"} {
		t.Run(how, func(t *testing.T) {
			dir := keys(t)
			srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Shutdown()
			admin, err := Dial(t.Context(), &Options{Server: srv})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = admin.Close() }()
			results := make(chan string, 10)
			inbox, own := transport.Inbox("", transport.Cortex), transport.Inbox("", "weather")
			serveTopic(t, admin, inbox, nil, func(e *transport.Event) error {
				results <- text(e)
				return nil
			})
			file := agentCreds(t, dir, "", "weather")
			if how == "expired" {
				expiring(t, dir, file)
			}
			refused, back := make(chan error, 10), make(chan struct{}, 10)
			b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: file, OnConn: func(up bool, err error) {
				switch {
				case up:
					back <- struct{}{}
				case errors.Is(err, transport.ErrForbidden):
					refused <- err
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			tasks := make(chan string, 10)
			serveTopic(t, b, own, &transport.SubscribeOptions{Unordered: true}, func(e *transport.Event) error {
				tasks <- text(e)
				return nil
			})
			if how == "revoked" {
				if _, err := auth.Revoke(dir, file); err != nil {
					t.Fatal(err)
				}
			}
			if err := receive(t, refused); !strings.Contains(err.Error(), "make new ones in their file, and this goes on") {
				t.Errorf("it is told %q", err)
			}
			publish(t, admin, own, "c1", "meanwhile")
			if how == "expired" { // add does not replace what is there
				if _, err := auth.Revoke(dir, file); err != nil {
					t.Fatal(err)
				}
			}
			if again := agentCreds(t, dir, "", "weather"); again != file {
				t.Fatalf("the new credentials are in %s, want %s", again, file)
			}
			receive(t, back)
			if got := receive(t, tasks); got != "meanwhile" {
				t.Errorf("task %q came", got)
			}
			e := message(inbox, "c1", "done")
			e.From = "weather"
			if err := b.Publish(t.Context(), inbox, e); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, results); got != "done" {
				t.Errorf("result %q came", got)
			}
		})
	}
}
