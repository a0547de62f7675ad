package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// foreignCreds makes credentials in the default tenant's account, like another tool.
func foreignCreds(t *testing.T, dir string, change func(c *jwt.UserClaims)) string {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(dir, "tenants", "_", "account.nk"))
	if err != nil {
		t.Fatal(err)
	}
	account, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	c := jwt.NewUserClaims(public)
	c.Name = "somebody"
	change(c)
	token, err := c.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	own, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	b, err := jwt.FormatUserConfig(token, own)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "foreign.creds")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// wantRefusal checks that an error is one line with these words, and its kind.
func wantRefusal(t *testing.T, what string, err, kind error, words string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %v, want one line of kind %q with %q", what, err, kind, words)
	}
}

// TestLoginRefused dials without credentials, or with wrong ones.
func TestLoginRefused(t *testing.T) {
	dir := keys(t)
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	good := auth.Admin(dir, "")
	b, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open.creds")
	if err := os.WriteFile(open, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	for _, c := range []struct{ name, creds, want string }{
		{"none", "", "--creds"},
		{"another server's", auth.Admin(keys(t), ""), "does not accept"},
		{"an agent's of another server", agentCreds(t, keys(t), "", "a"), "does not accept"},
		{"missing", filepath.Join(dir, "nothing.creds"), "nothing.creds: file does not exist"},
		{"open to everybody", open, "chmod 600"},
		{"expired", foreignCreds(t, dir, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Hour).Unix() }), "expired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: c.creds})
			if err == nil {
				_ = b.Close()
			}
			wantRefusal(t, "Dial", err, transport.ErrForbidden, c.want)
		})
	}
	for _, o := range []*Options{{URL: srv.URL(), Creds: good}, {Server: srv}, {Server: srv, Creds: good}} {
		b, err := Dial(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if who := b.Identity(); who == nil || who.Role != auth.Orchestrator {
			t.Errorf("Identity = %v, want the orchestrator", who)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err = Dial(t.Context(), &Options{Server: srv, Tenant: "acme"})
	wantRefusal(t, "Dial of another tenant", err, transport.ErrForbidden, "acme")
}

// TestRefusalsAreHeard uses credentials that allow almost everything: the server refuses the rest without an answer, and the waiting call returns
// that refusal at once.
func TestRefusalsAreHeard(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	n.dial(t, nil) // makes the streams
	inbox, live := transport.Inbox("", transport.Cortex), transport.Live("", "c1")
	for _, c := range []struct {
		pub, sub string // denied subjects
		try      func(b *Bus) error
	}{
		{inboxPrefix + ">", "", func(b *Bus) error { return b.Publish(t.Context(), inbox, message(inbox, "c1", "x")) }},
		{"", livePrefix + ">", func(b *Bus) error { _, err := b.Subscribe(t.Context(), live, nil); return err }},
		{jsAPI + "CONSUMER.CREATE.>", "", func(b *Bus) error { _, err := b.Subscribe(t.Context(), inbox, nil); return err }},
		{jsAPI + "CONSUMER.CREATE.>", "", func(b *Bus) error { _, err := b.Subscribe(t.Context(), transport.Cards(""), nil); return err }},
		{jsAPI + "STREAM.MSG.GET.>", "", func(b *Bus) error { return b.Withdraw(t.Context(), inbox, "c1", "user", "x") }},
	} {
		b := n.dial(t, &Options{Creds: foreignCreds(t, dir, func(u *jwt.UserClaims) {
			u.Pub.Deny.Add("denied")
			for to, subject := range map[*jwt.StringList]string{&u.Pub.Deny: c.pub, &u.Sub.Deny: c.sub} {
				if subject != "" {
					to.Add(subject)
				}
			}
		})})
		wantRefusal(t, "without "+c.pub+c.sub, c.try(b), transport.ErrForbidden, "--creds")
		if err := b.Healthy(t.Context()); err != nil {
			t.Errorf("Healthy = %v, want nil: one refusal is no end", err)
		}
	}
	for _, denied := range []string{jsAPI + "INFO", jsAPI + "STREAM.INFO.>", sentinelSubject} {
		_, err := Dial(t.Context(), &Options{Server: n.srv, Creds: foreignCreds(t, dir, func(u *jwt.UserClaims) { u.Pub.Deny.Add(denied) })})
		wantRefusal(t, "Dial without "+denied, err, transport.ErrForbidden, "--creds")
	}
}

// TestCallersAreToldNo makes an agent and a person use the bus for what they may not do.
func TestCallersAreToldNo(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, nil)
	inbox := transport.Inbox("", transport.Cortex)
	serveTopic(t, cortex, inbox, nil, func(*transport.Event) error { return nil })
	agent := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "weather")})
	person := n.dial(t, &Options{Creds: userCreds(t, dir, "", "ada")})
	from := func(id string, topic transport.Topic) *transport.Event {
		e := message(topic, "c1", "x")
		e.From = id
		return e
	}
	unordered := &transport.SubscribeOptions{Unordered: true}
	for _, c := range []struct {
		name, want string
		try        func() error
	}{
		{"another's result", `not for "calc"`, func() error { return agent.Publish(t.Context(), inbox, from("calc", inbox)) }},
		{"another person's words", `for "user:ada", not for "user"`, func() error { return person.Publish(t.Context(), inbox, from("user", inbox)) }},
		{"a task", "may not publish", func() error {
			return agent.Publish(t.Context(), transport.Inbox("", "calc"), from("weather", transport.Inbox("", "calc")))
		}},
		{"a timer", "may not publish", func() error {
			e := from("weather", inbox)
			e.DeliverAt = time.Now().Add(time.Hour)
			return agent.Publish(t.Context(), inbox, e)
		}},
		{"another's tasks", `for "weather", not for "calc"`, func() error {
			_, err := agent.Subscribe(t.Context(), transport.Inbox("", "calc"), unordered)
			return err
		}},
		{"Cortex's inbox", `not for "cortex"`, func() error { _, err := agent.Subscribe(t.Context(), inbox, nil); return err }},
		{"another's control", `not for "calc"`, func() error { _, err := agent.Subscribe(t.Context(), transport.Control("", "calc"), nil); return err }},
		{"conversations", "--creds", func() error { _, err := agent.Subscribe(t.Context(), transport.Live("", "c1"), nil); return err }},
		{"another tenant", `not for tenant "acme"`, func() error {
			_, err := agent.Subscribe(t.Context(), transport.Inbox("acme", "weather"), unordered)
			return err
		}},
		{"an agent's tasks", `not for "calc"`, func() error {
			_, err := person.Subscribe(t.Context(), transport.Inbox("", "calc"), unordered)
			return err
		}},
		{"erasing", "may not", func() error { return person.Erase(t.Context(), "", "c1") }},
	} {
		wantRefusal(t, c.name, c.try(), transport.ErrForbidden, c.want)
	}
}

// TestNobodyAtTheGateway connects an agent while no Cortex runs.
func TestNobodyAtTheGateway(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortex := n.dial(t, nil)
	agent := n.dial(t, &Options{Creds: agentCreds(t, dir, "", "weather")})
	topic := transport.Inbox("", "weather")
	_, err := agent.Subscribe(t.Context(), topic, &transport.SubscribeOptions{Unordered: true})
	wantRefusal(t, "Subscribe", err, transport.ErrUnavailable, "no Cortex runs")
	serveTopic(t, cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	got := make(chan *transport.Event, 1)
	serveTopic(t, agent, topic, &transport.SubscribeOptions{Unordered: true}, func(e *transport.Event) error {
		got <- e
		return nil
	})
	publish(t, cortex, topic, "c1", "hello")
	if e := receive(t, got); text(e) != "hello" {
		t.Errorf("%q came", text(e))
	}
}

// TestKeysAreChanged restarts the server with other keys: connected clients learn that they are refused.
func TestKeysAreChanged(t *testing.T) {
	o := &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: keys(t)}
	srv, err := StartServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: auth.Admin(o.Auth, "")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	srv.Shutdown()
	o.Listen, o.Auth = strings.TrimPrefix(srv.URL(), "nats://"), keys(t)
	if srv, err = StartServer(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	topic := transport.Inbox("", "worker")
	err = b.Publish(t.Context(), topic, message(topic, "c1", "x")) // waits for the server
	wantRefusal(t, "Publish", err, transport.ErrForbidden, "any more")
}

// TestKeysAreTurnedOn restarts a server that had no keys with keys: a client without credentials learns what happened and what to do, and logs it
// once, however often it reconnects.
func TestKeysAreTurnedOn(t *testing.T) {
	o := &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	srv, err := StartServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var log textLog
	b, err := Dial(t.Context(), &Options{URL: srv.URL(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	srv.Shutdown()
	var server textLog
	o.Listen, o.Auth, o.Logger = strings.TrimPrefix(srv.URL(), "nats://"), keys(t), slog.New(slog.NewTextHandler(&server, nil))
	if srv, err = StartServer(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	const words = "came back with keys, as with --auth, and wants to know who this is, which has joined without credentials: start it again with --creds"
	topic := transport.Inbox("", "worker")
	err = b.Publish(t.Context(), topic, message(topic, "c1", "x")) // waits for the server
	wantRefusal(t, "Publish", err, transport.ErrForbidden, words)
	eventually(t, "it has tried several times", func() bool { return strings.Count(server.String(), "authentication error") >= 3 })
	if n := strings.Count(log.String(), words); n != 1 || strings.Contains(log.String(), `msg="nats connection"`) {
		t.Errorf("it is told %d times, want once, and in no other words:\n%s", n, log.String())
	}
}

// TestTenantsApart checks that tenants of one server receive nothing of each other, and that one can be added while the server runs.
func TestTenantsApart(t *testing.T) {
	dir := keys(t, "", "acme")
	n := newNode(t, ServerOptions{Auth: dir})
	if err := auth.AddTenant(dir, "late"); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 10)
	buses := map[string]*Bus{}
	for _, tenant := range []string{"", "acme", "late"} {
		b := n.dial(t, &Options{Tenant: tenant})
		buses[tenant] = b
		serveTopic(t, b, transport.Inbox("acme", transport.Cortex), nil, func(e *transport.Event) error { // in any account
			heard <- fmt.Sprintf("%s: %s", tenant, text(e))
			return nil
		})
	}
	for _, tenant := range []string{"acme", "late"} {
		topic := transport.Inbox("acme", transport.Cortex)
		publish(t, buses[tenant], topic, "c1", "hello")
		if got := receive(t, heard); got != tenant+": hello" {
			t.Errorf("%q was heard of what %s sent", got, tenant)
		}
	}
	if len(heard) > 0 {
		t.Errorf("%q was heard as well", <-heard)
	}
}

// TestRevoked revokes the credentials of an agent that is connected: its connection ends and it is told why, another one's stays, and nobody comes in with
// them, not even after the server was restarted.
func TestRevoked(t *testing.T) {
	dir := keys(t)
	o := &ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Auth: dir}
	srv, err := StartServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Shutdown() }()
	file := agentCreds(t, dir, "", "weather")
	var refused sync.Map
	dial := func(file string) *Bus {
		b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: file, OnConn: func(up bool, err error) {
			if !up && errors.Is(err, transport.ErrForbidden) {
				refused.Store(file, err)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	copied := filepath.Join(t.TempDir(), "copy.creds")
	if b, err := os.ReadFile(file); err != nil || os.WriteFile(copied, b, 0o600) != nil {
		t.Fatal(err)
	}
	other := agentCreds(t, dir, "", "other")
	dial(copied)
	dial(other)
	if _, err := auth.Revoke(dir, file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told", func() bool {
		_, is := refused.Load(copied)
		return is
	})
	if err, is := refused.Load(other); is {
		t.Errorf("another one is refused: %v", err)
	}
	for _, what := range []string{"at once", "after a restart"} {
		if _, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: copied}); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("%s it comes in: %v", what, err)
		}
		srv.Shutdown()
		if srv, err = StartServer(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: agentCreds(t, dir, "", "weather")}); err != nil {
		t.Errorf("with new ones: %v", err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestOtherServer makes a separate nats-server accept the keys by the configuration made for it.
func TestOtherServer(t *testing.T) {
	dir := keys(t)
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.Symlink(auth.Resolver(dir), filepath.Join(filepath.Dir(config), "resolver.conf")); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\ninclude resolver.conf\n", t.TempDir())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	srv, err := StartConfig(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	_, err = Dial(t.Context(), &Options{URL: srv.URL()})
	wantRefusal(t, "Dial", err, transport.ErrForbidden, "--creds")
	cortex, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: auth.Admin(dir, "")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cortex.Close() }()
	serveTopic(t, cortex, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	agent, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: agentCreds(t, dir, "", "weather")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Close() }()
	got := make(chan *transport.Event, 1)
	topic := transport.Inbox("", "weather")
	serveTopic(t, agent, topic, &transport.SubscribeOptions{Unordered: true}, func(e *transport.Event) error {
		got <- e
		return nil
	})
	publish(t, cortex, topic, "c1", "hello")
	receive(t, got)
}

// TestStoreFromBeforeKeys starts a server with keys on a store that was made without: the old data is not lost, and the log mentions it.
func TestStoreFromBeforeKeys(t *testing.T) {
	n := newNode(t, ServerOptions{})
	topic := transport.Inbox("", "worker")
	publish(t, n.dial(t, nil), topic, "c1", "before")
	n.stop()
	var log strings.Builder
	without := n.opts
	n.opts.Auth, n.opts.Logger = keys(t), slog.New(slog.NewTextHandler(&log, nil))
	n.start(t)
	if left, err := n.dial(t, nil).Waiting(t.Context(), topic); err != nil || left != 0 {
		t.Errorf("Waiting = %d, %v, want none with keys", left, err)
	}
	n.stop()
	if got := log.String(); !strings.Contains(got, "what was stored before the server had keys is not seen") {
		t.Errorf("the log does not tell:\n%s", got)
	}
	n.opts = without
	n.start(t)
	if left, err := n.dial(t, nil).Waiting(t.Context(), topic); err != nil || left != 1 {
		t.Errorf("Waiting = %d, %v, want 1 without keys", left, err)
	}
}
