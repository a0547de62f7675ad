package cli

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/home"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestMarkStore checks that another store than before is recognised.
func TestMarkStore(t *testing.T) {
	var log bytes.Buffer
	data := t.TempDir()
	set := &settings{program: self, data: data}
	mark := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(storeDir(data), "jetstream", "$G", "streams", "CORTEX_LOG"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := set.missingStore(); err != nil {
			t.Fatal(err)
		}
		markStore(data, slog.New(slog.NewTextHandler(&log, nil)))
	}
	mark()
	mark()
	if log.Len() > 0 {
		t.Errorf("the log has %s, want nothing", &log)
	}
	if err := os.RemoveAll(storeDir(data)); err != nil {
		t.Fatal(err)
	}
	if err := set.missingStore(); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("missingStore = %v, want that it is not there", err)
	}
	mark()
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "is another one than the last time") {
		t.Errorf("the log has %s, want that it is another one", got)
	}
}

// TestEmptyStore removes the store from its folder, with different remaining traces of it.
func TestEmptyStore(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data [1]")
	set := &settings{program: self, data: data}
	for _, dir := range []string{"jetstream/$G/streams/CORTEX_LOG", "jetstream/ACCOUNT"} {
		if err := os.MkdirAll(filepath.Join(storeDir(data), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := leave(lastFile(data), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	markStore(data, slog.New(slog.DiscardHandler))
	check := func(when string, missing bool, gone string) {
		t.Helper()
		if err := set.missingStore(); (err != nil) != missing {
			t.Errorf("%s: missingStore = %v", when, err)
		}
		if got := set.goneStore(); got == "" != (gone == "") || !strings.HasSuffix(got, gone+" is left") && gone != "" {
			t.Errorf("%s: goneStore = %q, want that %q is left", when, got, gone)
		}
	}
	remove := func(path string) {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	check("a store", false, "")
	remove(filepath.Join(storeDir(data), "jetstream", "$G", "streams", "CORTEX_LOG"))
	check("no stream", true, storeIDFile(data))
	remove(filepath.Join(storeDir(data), "jetstream", "$G"))
	check("no account", true, storeIDFile(data))
	remove(markFile(data))
	check("no mark", false, storeIDFile(data))
	remove(storeIDFile(data))
	check("no id", false, lastFile(data))
	remove(lastFile(data))
	check("nothing", false, "")
	markStore(data, slog.New(slog.DiscardHandler))
	if err := leave(filepath.Join(storeDir(data), "remembered.json"), []byte("damaged")); err != nil {
		t.Fatal(err)
	}
	check("damaged memory", true, storeIDFile(data))
	if err := new(storecheck.Memory).Write(filepath.Join(storeDir(data), "remembered.json")); err != nil {
		t.Fatal(err)
	}
	check("what is remembered tells it", false, "")
}

// TestPortTaken takes the previous port just before it is used.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	srv, err := startServer(t.Context(), own, &home.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, "127.0.0.1:0")
	if err != nil {
		t.Fatalf("startServer = %v, want another port", err)
	}
	if strings.HasSuffix(srv.URL(), l.Addr().String()) {
		t.Errorf("URL = %s, which is taken", srv.URL())
	}
	srv.Shutdown()
	if _, err := startServer(t.Context(), own, &home.ServerOptions{Dir: t.TempDir(), Listen: l.Addr().String()}, l.Addr().String()); err == nil {
		t.Error("startServer takes another port than the one that was asked for")
	}
	if err := (&settings{program: self, data: filepath.Join(t.TempDir(), "none")}).missingStore(); err != nil {
		t.Errorf("missingStore of a new folder = %v", err)
	}
}
