package nats

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestUntrusted damages the folder of keys of a server that runs, and mends it again.
func TestUntrusted(t *testing.T) {
	trust := keys(t)
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: t.TempDir(), Auth: trust})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if err := srv.Untrusted(); err != nil {
		t.Errorf("with good keys: %v", err)
	}
	path := filepath.Join(trust, "tenants", "_", "account.jwt")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, good[:len(good)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half of the account's file is an error that names it", func() bool {
		err := srv.Untrusted()
		return err != nil && strings.Contains(err.Error(), path)
	})
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the good keys are noticed", func() bool { return srv.Untrusted() == nil })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an account that is gone is an error", func() bool {
		err := srv.Untrusted()
		return err != nil && strings.Contains(err.Error(), "has no account")
	})
}

// syncedLog is a log that is read while it is written.
type syncedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *syncedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestOlderKeys puts an older copy of the folder of keys back, as from a backup, while the server runs and while it does not. What was revoked since stays
// revoked, also for tokens, and is in the folder again with what is revoked after that; the log says so.
func TestOlderKeys(t *testing.T) {
	trust, dir := keys(t), t.TempDir()
	ada, bob := userCreds(t, trust, "", "ada"), userCreds(t, trust, "", "bob")
	path := filepath.Join(trust, "tenants", "_", "account.jwt")
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copies := t.TempDir()
	keep := func(file string) string {
		t.Helper()
		to := filepath.Join(copies, filepath.Base(file))
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	ada, bob = keep(ada), keep(bob)
	token, err := auth.BearerToken(ada)
	if err != nil {
		t.Fatal(err)
	}
	back := func() {
		t.Helper()
		if err := os.WriteFile(path, older, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log syncedLog
	start := func() *Server {
		t.Helper()
		srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Auth: trust, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		return srv
	}
	refused := func(srv *Server, creds string) bool {
		b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: creds})
		if err == nil {
			_ = b.Close()
		}
		return errors.Is(err, transport.ErrForbidden)
	}
	srv := start()
	if _, err := auth.Revoke(trust, ada); err != nil {
		t.Fatal(err)
	}
	kept := func() (n int) {
		all, err := auth.ReadRevocations(filepath.Join(dir, "revoked.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range all {
			n += len(of)
		}
		return n
	}
	eventually(t, "what is revoked is kept", func() bool { return kept() == 1 })
	back()
	const told = "the folder of keys is older than it was"
	eventually(t, "the older copy is told", func() bool { return strings.Contains(log.String(), told) })
	if !refused(srv, ada) || refused(srv, bob) {
		t.Errorf("with an older copy, ada is refused: %v, and bob: %v", refused(srv, ada), refused(srv, bob))
	}
	if err := srv.Untrusted(); err != nil {
		t.Errorf("with what was put back: %v", err)
	}
	if _, err := auth.Revoke(trust, bob); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is revoked then is kept", func() bool { return kept() == 2 })
	srv.Shutdown()
	before := strings.Count(log.String(), told)
	back()
	srv = start()
	if !refused(srv, ada) || !refused(srv, bob) {
		t.Errorf("after a start with an older copy, ada is refused: %v, and bob: %v", refused(srv, ada), refused(srv, bob))
	}
	if strings.Count(log.String(), told) == before {
		t.Error("the older copy is not told at the start")
	}
	bearer, err := auth.NewBearer(auth.Admin(trust, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bearer.Identify(token); !errors.Is(err, auth.ErrRevoked) {
		t.Errorf("a token of ada: %v", err)
	}
}

// TestOlderKeysUnsigned puts an older copy back where the key that signs accounts is kept elsewhere: connections are refused, and it is told that tokens
// are not. A damaged file of what was revoked is told, too.
func TestOlderKeysUnsigned(t *testing.T) {
	trust, dir := keys(t), t.TempDir()
	ada := userCreds(t, trust, "", "ada")
	path, signing := filepath.Join(trust, "tenants", "_", "account.jwt"), filepath.Join(trust, "signing.nk")
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := os.ReadFile(ada)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "ada.creds") // the folder has them no longer when they are revoked
	if err := os.WriteFile(kept, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	var log syncedLog
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Auth: trust})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Revoke(trust, ada); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is revoked is kept", func() bool {
		all, err := auth.ReadRevocations(filepath.Join(dir, "revoked.json"))
		return err == nil && len(all) == 1
	})
	if err := errors.Join(os.Remove(signing), os.WriteFile(path, older, 0o600)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what lacks revocations is an error", func() bool {
		err := srv.Untrusted()
		return err != nil && strings.Contains(err.Error(), "lacks 1 revocations")
	})
	srv.Shutdown()
	if srv, err = StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Auth: trust}); err != nil {
		t.Fatal(err)
	}
	b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: kept})
	if err == nil {
		_ = b.Close()
	}
	if !errors.Is(err, transport.ErrForbidden) {
		t.Errorf("after a start with an older copy, ada's connection: %v, want it refused", err)
	}
	srv.Shutdown()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "revoked.json"), []byte("{"), 0o600), os.Remove(memoryFile(dir))); err != nil {
		t.Fatal(err)
	}
	if srv, err = StartServer(t.Context(), &ServerOptions{Dir: dir, Auth: trust, Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if !strings.Contains(log.String(), "what was revoked is known from the folder of keys alone") {
		t.Errorf("a damaged file is not told:\n%s", log.String())
	}
}

// TestRevokedIsKept removes, empties and replaces the file of what was revoked while the server runs: it is written again, so that an older copy of the
// folder of keys at the next start brings nothing back. While it cannot be written, that is told once.
func TestRevokedIsKept(t *testing.T) {
	trust, dir := keys(t), t.TempDir()
	ada := userCreds(t, trust, "", "ada")
	var log syncedLog
	srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Auth: trust, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if _, err := auth.Revoke(trust, ada); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "revoked.json")
	kept := func() bool {
		all, err := auth.ReadRevocations(path)
		return err == nil && len(all) == 1
	}
	eventually(t, "what is revoked is kept", kept)
	for what, damage := range map[string]func() error{
		"is removed": func() error { return os.Remove(path) },
		"is emptied": func() error { return os.Truncate(path, 0) },
		"is older":   func() error { return os.WriteFile(path, []byte("{}"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what "+what+" is written again", kept)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what cannot be written is an error", func() bool { return srv.Untrusted() != nil })
	srv.trust.look() // again, at once
	if n := strings.Count(log.String(), "is not in order"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, log.String())
	}
}

// TestRevokedIsRemembered removes, damages and ages the file of what was revoked while no server runs, and puts an older copy of the folder of keys back: what
// is remembered beside the store knows what was revoked all the same. Without that it is told that only the folder of keys is believed.
func TestRevokedIsRemembered(t *testing.T) {
	trust, dir := keys(t), t.TempDir()
	account, path := filepath.Join(trust, "tenants", "_", "account.jwt"), filepath.Join(dir, "revoked.json")
	ada := userCreds(t, trust, "", "ada")
	older, err := os.ReadFile(account)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := os.ReadFile(ada)
	if err != nil {
		t.Fatal(err)
	}
	stolen := filepath.Join(t.TempDir(), "ada.creds")
	if err := os.WriteFile(stolen, creds, 0o600); err != nil {
		t.Fatal(err)
	}
	var log *syncedLog
	start := func() *Server {
		t.Helper()
		log = &syncedLog{}
		srv, err := StartServer(t.Context(), &ServerOptions{Dir: dir, Listen: "127.0.0.1:0", Auth: trust, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Shutdown)
		return srv
	}
	admitted := func(srv *Server, creds string) bool {
		t.Helper()
		b, err := Dial(t.Context(), &Options{URL: srv.URL(), Creds: creds})
		if err == nil {
			return b.Close() == nil
		}
		if !errors.Is(err, transport.ErrForbidden) {
			t.Error(err)
		}
		return false
	}
	srv := start()
	b, err := Dial(t.Context(), &Options{Server: srv, Creds: auth.Admin(trust, "")}) // makes the streams
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := auth.Revoke(trust, ada); err != nil {
		t.Fatal(err)
	}
	kept := func() bool {
		all, err := auth.ReadRevocations(path)
		return err == nil && len(all) == 1
	}
	eventually(t, "what is revoked is kept", kept)
	srv.Shutdown()
	for what, damage := range map[string]func() error{
		"is gone":    func() error { return os.Remove(path) },
		"is damaged": func() error { return os.Truncate(path, 1) },
		"is older":   func() error { return os.WriteFile(path, []byte("{}"), 0o600) },
	} {
		if err := errors.Join(damage(), os.WriteFile(account, older, 0o600)); err != nil {
			t.Fatal(err)
		}
		srv = start()
		if admitted(srv, stolen) {
			t.Errorf("the file %s, and what was revoked is good again", what)
		}
		if !strings.Contains(log.String(), "is gone, damaged, or older than it was") || !kept() {
			t.Errorf("the file %s: is it as it was? %v, and told:\n%s", what, kept(), log)
		}
		srv.Shutdown()
	}
	if err := errors.Join(os.Remove(path), os.Remove(memoryFile(dir)), os.WriteFile(account, older, 0o600)); err != nil {
		t.Fatal(err)
	}
	srv = start()
	if !strings.Contains(log.String(), "what was revoked is known from the folder of keys alone") {
		t.Errorf("without the file and what is remembered, nothing is told:\n%s", log)
	}
	if !admitted(srv, stolen) {
		t.Error("nothing else knew what was revoked: the test has lost its point")
	}
	srv.Shutdown()
	if start(); strings.Contains(log.String(), "revoked") {
		t.Errorf("it is told again:\n%s", log)
	}
}
