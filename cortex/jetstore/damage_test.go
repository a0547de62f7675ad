package jetstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

const (
	talks = 12 // conversations
	turns = 6  // entries of each
	spent = 5  // tokens of each day
)

// spentDays are the days of which a store has what was spent.
var spentDays = []string{"2026-11-22", "2026-11-23"}

// TestDamage damages the files of a store in many ways. Whatever is damaged, the server starts and accepts new work, each conversation is unchanged
// or known to be damaged, losses are reported, and memory is bounded.
func TestDamage(t *testing.T) {
	ended, killed := prepareDamage(t)
	t.Run("seeds", func(t *testing.T) {
		for seed := range storechecktest.Seeds() {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(seed, 11))
				from := ended
				if seed%2 == 1 {
					from = killed
				}
				dir := storechecktest.Copy(t, from)
				often := jetstore.Stream
				if seed%5 == 4 {
					often = "KV_" + jetstore.SpendLog
				}
				t.Log(storechecktest.Damage(t, rnd, dir, often))
				checkDamaged(t, dir)
			})
		}
	})
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.Sys > 1<<30 {
		t.Errorf("%d MB of memory are used, want less than 1 GB", m.Sys>>20)
	}
}

// TestNoDamage checks that nothing is reported for an undamaged store, after a shutdown and after a kill.
func TestNoDamage(t *testing.T) {
	ended, killed := prepareDamage(t)
	for _, from := range []string{ended, killed} {
		dir := storechecktest.Copy(t, from)
		for range 3 {
			s := startChecked(t, dir)
			if found := s.srv.Found(); len(found) > 0 {
				t.Errorf("found %+v in a store that is not damaged", found)
			}
			if a := s.audit.End(); a.Conversations != talks || a.Entries != talks*turns || len(a.Damaged) > 0 || a.Lost > 0 {
				t.Errorf("the audit of a log that is not damaged finds %+v", a)
			}
			s.stop()
		}
	}
}

// TestKilledWhileErasing removes the last entry of a conversation without overwriting it, as after a kill of the server, and erases the rest later.
// No conversation is damaged by that, nothing is lost, and the next start overwrites the text.
func TestKilledWhileErasing(t *testing.T) {
	ended, _ := prepareDamage(t)
	dir := storechecktest.Copy(t, ended)
	s := startChecked(t, dir)
	store := s.open(t)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Stream)
	if err != nil {
		t.Fatal(err)
	}
	last, err := stream.GetLastMsgForSubject(t.Context(), "cortex.v1.log._."+talk(3))
	if err == nil {
		err = stream.DeleteMsg(t.Context(), last.Sequence)
	}
	if err == nil {
		err = store.Erase(t.Context(), "", talk(3))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	block := filepath.Join(dir, "jetstream", "$G", "streams", jetstore.Stream, "msgs", "1.blk")
	whole, err := os.ReadFile(block)
	if n := bytes.Count(whole, []byte("cortex.v1.log._."+talk(3))); n != 1 || err != nil {
		t.Fatalf("the block has the removed entry %d times, %v, want once", n, err)
	}
	for range 2 {
		s = startChecked(t, dir)
		if a := s.audit.End(); a.Conversations != talks-1 || len(a.Damaged) > 0 || a.Lost > 0 || len(s.srv.Found()) > 0 {
			t.Errorf("the check finds %+v, %+v, want %d conversations and nothing damaged", a, s.srv.Found(), talks-1)
		}
		if b, err := os.ReadFile(block); err != nil || bytes.Contains(b, []byte("cortex.v1.log._."+talk(3))) {
			t.Errorf("the block still has the removed entry, %v", err)
		}
		s.stop()
	}
}

// prepareDamage returns the folders of two stores with the same content: after a proper shutdown of the server, and without one.
func prepareDamage(t *testing.T) (ended, killed string) {
	t.Helper()
	dir := t.TempDir()
	s := startChecked(t, dir)
	store := s.open(t)
	put := func(id string, n int) {
		var last conversation.Version
		for i := range n {
			e := entry(uint64(i + 1))
			e.Time = time.Unix(int64(i), 0)
			var err error
			if last, err = store.Append(t.Context(), "", id, last, e); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.PutSnapshot(t.Context(), "", id, last, []byte("fold")); err != nil {
			t.Fatal(err)
		}
		if _, err := store.PutNote(t.Context(), "", "kind", storage.Note{Key: id, Value: []byte("note of " + id)}); err != nil {
			t.Fatal(err)
		}
	}
	put("erased", 3)
	for i := range talks {
		put(talk(i), turns)
	}
	if err := store.Erase(t.Context(), "", "erased"); err != nil {
		t.Fatal(err)
	}
	for _, day := range spentDays {
		for range spent {
			if _, err := store.Spend(t.Context(), "", day, llm.Usage{Input: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.srv.Remember(time.Now())
	s.srv.Remember(time.Now().Add(time.Hour)) // everything is on the disk by then
	killed = storechecktest.Copy(t, dir)
	s.stop()
	return dir, killed
}

func talk(i int) string { return fmt.Sprintf("c%d", i) }

// checkDamaged starts a server on a store that may be damaged, and checks what remains.
func checkDamaged(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := startChecked(t, dir)
	defer s.stop()
	store := s.open(t)
	audit := s.audit.End()
	said := audit.Lost > 0 || len(audit.Damaged) > 0
	for _, f := range s.srv.Found() {
		said = said || f.Level != storecheck.Made
	}
	for i := range talks {
		n, err := countOf(ctx, t, store, talk(i))
		switch {
		case errors.Is(err, conversation.ErrDamaged):
			if !said {
				t.Errorf("conversation %s is damaged, and the check at the start has said nothing", talk(i))
			}
			continue
		case err != nil:
			t.Errorf("Load(%s) = %v, want nil or ErrDamaged", talk(i), err)
		case n != turns && !said:
			t.Errorf("conversation %s has %d entries, want %d, and nothing was said", talk(i), n, turns)
		}
		if _, _, err := store.Snapshot(ctx, "", talk(i)); err != nil {
			t.Errorf("Snapshot(%s) = %v", talk(i), err)
		}
	}
	if n, err := countOf(ctx, t, store, "erased"); n != 0 || err != nil {
		t.Errorf("an erased conversation has %d entries, %v", n, err)
	}
	if v, err := store.Append(ctx, "", "new", 0, entry(1)); err != nil {
		t.Errorf("Append = %v", err)
	} else if _, err := store.Append(ctx, "", "new", v, entry(2)); err != nil {
		t.Errorf("Append = %v", err)
	}
	for _, err := range store.Notes(ctx, "", "kind") {
		if err != nil {
			t.Errorf("Notes = %v", err)
		}
	}
	for i := range talks {
		note, err := store.Note(ctx, "", "kind", talk(i))
		if err != nil {
			t.Errorf("Note = %v", err)
		} else if v := string(note.Value); note.Version != 0 && v != "note of "+talk(i) {
			t.Errorf("the note of %s is %q", talk(i), v)
		}
		note.Value = []byte("another")
		if _, err := store.PutNote(ctx, "", "kind", note); err != nil {
			t.Errorf("PutNote = %v", err)
		}
	}
	for range store.Contexts(ctx, "") {
		break
	}
	for _, day := range spentDays {
		if got, err := store.Spend(ctx, "", day, llm.Usage{Input: 1}); err != nil {
			t.Errorf("Spend = %v", err)
		} else if want := (llm.Usage{Input: spent + 1}); got != want && !said {
			t.Errorf("%+v is spent on %s, want %+v, and nothing was said", got, day, want)
		}
	}
	for _, d := range audit.Damaged { // like `cortex doctor`
		good, err := store.Repair(ctx, d.Tenant, d.ContextID, func(uint64, []byte) error { return nil }, func() error { return nil })
		if err != nil || good != d.Good {
			t.Errorf("Repair(%s) = %d, %v, want %d", d.ContextID, good, err, d.Good)
		}
		if n, err := countOf(ctx, t, store, d.ContextID); n != good || err != nil {
			t.Errorf("after its repair conversation %s has %d entries, %v, want %d", d.ContextID, n, err, good)
		}
	}
}

// countOf returns the number of a conversation's entries, and checks that they are those that were appended.
func countOf(ctx context.Context, t *testing.T, s *jetstore.Store, id string) (n int, err error) {
	t.Helper()
	for e, err := range s.Load(ctx, "", id, 0) {
		if err != nil {
			return n, err
		}
		if n++; e.Seq != uint64(n) || e.Cause.ID != entry(uint64(n)).Cause.ID {
			t.Errorf("entry %d of %s is %+v", n, id, e)
		}
	}
	return n, nil
}

// checked is a server that checks its store before it opens it.
type checked struct {
	srv   *nats.Server
	audit *jetstore.Audit
	nc    *natsgo.Conn
}

func startChecked(t *testing.T, dir string) *checked {
	t.Helper()
	s := &checked{audit: jetstore.NewAudit(0)}
	var err error
	s.srv, err = nats.StartServer(t.Context(), &nats.ServerOptions{Dir: dir, Inspect: func(_, stream string, since uint64) func(*storecheck.Record) {
		if stream != jetstore.Stream {
			return nil
		}
		s.audit = jetstore.NewAudit(since)
		return func(r *storecheck.Record) {
			if r.Gone {
				s.audit.Gone(r.Seq)
			} else {
				s.audit.Message(r.Seq, r.Subject, r.Header, r.Data)
			}
		}
	}})
	if err != nil {
		t.Fatalf("StartServer = %v", err)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *checked) open(t *testing.T) *jetstore.Store {
	t.Helper()
	var err error
	if s.nc, err = natsgo.Connect("", natsgo.InProcessServer(s.srv)); err != nil {
		t.Fatal(err)
	}
	store, err := jetstore.Open(t.Context(), s.nc, nil)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	return store
}

func (s *checked) stop() {
	if s.nc != nil {
		s.nc.Close()
	}
	s.srv.Shutdown()
}
