package jetstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/cortex/storetest"
	embedded "github.com/cortex-orchestrator/cortex/transport/nats"
)

// node is a store with its server.
type node struct {
	*jetstore.Store
	nc   *nats.Conn
	dir  string
	stop func()
}

// start runs a server on dir and connects to it. stop ends both; so does the end of the test.
func start(t testing.TB, dir string) (nc *nats.Conn, stop func()) {
	t.Helper()
	return startWith(t, server.Options{JetStream: true, StoreDir: dir, MaxPayload: 8 << 20})
}

// startWith runs a server without a port.
func startWith(t testing.TB, o server.Options) (nc *nats.Conn, stop func()) {
	t.Helper()
	o.DontListen, o.NoLog, o.NoSigs = true, true, true
	srv, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	if nc, err = nats.Connect("", nats.InProcessServer(srv)); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		nc.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	t.Cleanup(stop)
	return nc, stop
}

func open(t testing.TB, dir string) node {
	t.Helper()
	nc, stop := start(t, dir)
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	return node{s, nc, dir, stop}
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) storage.Store { return open(t, t.TempDir()) },
		Reopen: func(t *testing.T, s storage.Store) storage.Store {
			n := s.(node)
			n.stop()
			return open(t, n.dir)
		},
		Damage: func(t *testing.T, s storage.Store, contextID string, place uint64) storage.Store {
			n := s.(node)
			n.stop()
			file := filepath.Join(n.dir, "jetstream", "$G", "streams", jetstore.Stream, "msgs", "1.blk")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(fmt.Sprintf(`(?s)log\._\.%s.{4}NATS/1\.0.{1,300}?\{"seq":%d,`, contextID, place)).FindIndex(b)
			if found == nil {
				t.Fatalf("entry %d of %s is not in the file", place, contextID)
			}
			b[found[1]+9] ^= 1
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := embedded.CheckStore(t.Context(), n.dir, t.TempDir(), nil); err != nil { // as the embedded server does
				t.Fatal(err)
			}
			return open(t, n.dir)
		},
	})
}

// TestEntryIsNotWhatWasAppended makes the server answer with an entry whose checksum does not match: the server detects most damage itself, but not
// all.
func TestEntryIsNotWhatWasAppended(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 2)
	b, err := entry(3).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg("cortex.v1.log._.c")
	m.Data = b
	m.Header.Set("Cortex-Sum", "1")
	if _, err := nc.RequestMsg(m, time.Second); err != nil {
		t.Fatal(err)
	}
	if n, err := count(t.Context(), t, s); n != 2 || !errors.Is(err, conversation.ErrDamaged) {
		t.Errorf("Load ends after %d entries with %v, want 2 and ErrDamaged", n, err)
	}
	if d := s.Damaged(); len(d) != 1 || d[0].ContextID != "c" {
		t.Errorf("Damaged = %+v, want the conversation", d)
	}
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) storage.Store { return open(b, b.TempDir()) })
}
