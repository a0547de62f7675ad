package jetstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// TestStaleKey puts a note with a cached key that another store has erased: the put is refused, or sealed with the new key.
func TestStaleKey(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	var stores []*jetstore.Store
	for range 2 {
		s, err := jetstore.Open(t.Context(), nc, nil)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	first := put(t, stores[0], 0, "first")
	second, err := stores[1].EraseNote(t.Context(), "", storage.NoteEvidence, note(first, "second"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(v conversation.Version) {
		t.Helper()
		if _, err := stores[0].PutNote(t.Context(), "", storage.NoteEvidence, note(v, "stale")); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("PutNote at version %d = %v, want ErrConflict", v, err)
		}
	}
	refused(first)
	third := put(t, stores[0], second, "third") // this store has not seen the second note
	wantNote(t, stores[1], "third")
	if err := stores[1].DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
		t.Fatal(err)
	}
	refused(third)
	wantNote(t, stores[0], "")
	put(t, stores[0], 0, "fourth")
	wantNote(t, stores[1], "fourth")
}

// TestLostKey simulates a power cut that a note survived and its key did not: the note then counts as missing, and it can be written anew, also by
// a store with the key in its cache.
func TestLostKey(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := put(t, s, 0, "lost")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), keys(t, nc)[0].seq); err != nil {
		t.Fatal(err)
	}
	other, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantNote(t, other, "")
	if _, err := other.PutNote(t.Context(), "", storage.NoteEvidence, note(lost, "x")); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("PutNote at the version of a note that is lost = %v, want ErrConflict", err)
	}
	v := put(t, other, 0, "anew")
	if v <= lost {
		t.Errorf("the version is %d, want one behind %d", v, lost)
	}
	wantNote(t, s, "anew")
	if err := stream.DeleteMsg(t.Context(), keys(t, nc)[0].seq); err != nil {
		t.Fatal(err)
	}
	if err := other.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
		t.Fatal(err)
	}
	wantNote(t, s, "")
	put(t, s, 0, "once more")
	wantNote(t, other, "once more")
}

// TestReconnectForgetsKeys checks that a reconnect clears the cache of keys, since a server that lost power may have lost some.
func TestReconnectForgetsKeys(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := put(t, s, 0, "first")
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), jetstore.Keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), keys(t, nc)[0].seq); err != nil {
		t.Fatal(err)
	}
	up := nc.StatusChanged(nats.CONNECTED)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-up
	if _, err := s.PutNote(t.Context(), "", storage.NoteEvidence, note(v, "second")); !errors.Is(err, storage.ErrConflict) {
		t.Errorf("PutNote with a key that is gone = %v, want ErrConflict", err)
	}
	wantNote(t, s, "")
}

// TestNoteKilledAtEveryStep ends a store before each of its requests. The note can be read then, with its old or its new value; and when the
// operation is repeated, no old keys remain.
func TestNoteKilledAtEveryStep(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(s *jetstore.Store, ctx context.Context) error
		want string // afterwards
	}{
		"erase": {func(s *jetstore.Store, ctx context.Context) error {
			n, err := s.Note(ctx, "", storage.NoteEvidence, "alpha")
			if err == nil {
				n.Value = []byte("new")
				_, err = s.EraseNote(ctx, "", storage.NoteEvidence, n)
			}
			return err
		}, "new"},
		"delete": {func(s *jetstore.Store, ctx context.Context) error {
			return s.DeleteNote(ctx, "", storage.NoteEvidence, "alpha", 0)
		}, ""},
	} {
		for again, redo := range map[string]func(s *jetstore.Store, ctx context.Context) error{
			"done again": tt.do,
			"listed": func(s *jetstore.Store, ctx context.Context) error {
				for _, err := range s.Notes(ctx, "", storage.NoteEvidence) {
					if err != nil {
						return err
					}
				}
				return nil
			},
		} {
			t.Run(name+", "+again, func(t *testing.T) {
				nc, _ := start(t, t.TempDir())
				g := newGate(t, nc)
				ended := false
				for steps := 0; !ended; steps++ {
					if steps > 50 {
						t.Fatal("it does not end")
					}
					healthy, err := jetstore.Open(t.Context(), nc, nil)
					if err != nil {
						t.Fatal(err)
					}
					n, err := healthy.Note(t.Context(), "", storage.NoteEvidence, "alpha")
					if err != nil {
						t.Fatal(err)
					}
					put(t, healthy, n.Version, "old")
					old := keys(t, nc)
					mortal, err := jetstore.Open(t.Context(), nc, nil)
					if err != nil {
						t.Fatal(err)
					}
					g.limit(mortal, steps)
					err = tt.do(mortal, t.Context())
					ended = err == nil
					got, err := healthy.Note(t.Context(), "", storage.NoteEvidence, "alpha")
					if err != nil || string(got.Value) != "old" && string(got.Value) != tt.want {
						t.Fatalf("killed after %d steps: Note = %q, %v", steps, got.Value, err)
					}
					if replaced := string(got.Value) == tt.want; ended && !replaced {
						t.Fatalf("after %d steps there was no error, and the note is %q", steps, got.Value)
					} else if !replaced && again == "listed" {
						continue // only repeating the operation cleans up
					}
					if err := redo(healthy, t.Context()); err != nil {
						t.Fatal(err)
					}
					wantNote(t, healthy, tt.want)
					left := keys(t, nc)
					for _, o := range old {
						for _, l := range left {
							if o.seq == l.seq {
								t.Errorf("killed after %d steps, %s: the old key %d is still there", steps, again, o.seq)
							}
						}
					}
				}
			})
		}
	}
}

// TestNoteBetweenAnySteps lets another store act before each request of a store. The note can then be read, and the keys of what was erased or
// deleted are gone, whichever store did that.
func TestNoteBetweenAnySteps(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	g := newGate(t, nc)
	open := func() *jetstore.Store {
		t.Helper()
		s, err := jetstore.Open(t.Context(), nc, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	other := open()
	write := func(change func(context.Context, string, string, storage.Note) (conversation.Version, error), s *jetstore.Store, value string) error {
		n, err := s.Note(t.Context(), "", storage.NoteEvidence, "alpha")
		if err == nil {
			_, err = change(t.Context(), "", storage.NoteEvidence, note(n.Version, value))
		}
		return err
	}
	remove := func(s *jetstore.Store) error { return s.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0) }
	acts := map[string]func(s *jetstore.Store, value string) error{
		"put":    func(s *jetstore.Store, value string) error { return write(s.PutNote, s, value) },
		"erase":  func(s *jetstore.Store, value string) error { return write(s.EraseNote, s, value) },
		"delete": func(s *jetstore.Store, _ string) error { return remove(s) },
		"begin anew": func(s *jetstore.Store, value string) error {
			if err := remove(s); err != nil {
				return err
			}
			return write(s.PutNote, s, value)
		},
		"read": func(s *jetstore.Store, _ string) error {
			n, err := s.Note(t.Context(), "", storage.NoteEvidence, "alpha")
			if err == nil && n.Version == 0 {
				err = errNothing
			}
			return err
		},
	}
	for name, act := range acts {
		for between, acted := range acts {
			t.Run(name+", "+between, func(t *testing.T) {
				for step, reached := 0, true; reached; step++ {
					if step > 50 {
						t.Fatal("it does not end")
					}
					if err := remove(other); err != nil {
						t.Fatal(err)
					}
					put(t, other, 0, "old")
					old := keys(t, nc)
					s := open()
					reached = false
					g.limit(s, step)
					g.before(func() {
						reached = true
						gone := name == "delete" || name == "begin anew"
						if err := acted(other, "others"); err != nil && (!gone || !errors.Is(err, errNothing)) {
							t.Errorf("step %d: %s = %v", step, between, err)
						}
					})
					err := act(s, "own")
					erased := name != "put" && name != "read" && err == nil || reached && between != "put" && between != "read"
					switch {
					case err == nil, errors.Is(err, storage.ErrConflict):
					case errors.Is(err, errNothing) && between == "delete":
					default:
						t.Fatalf("step %d: %s = %v", step, name, err)
					}
					n, err := open().Note(t.Context(), "", storage.NoteEvidence, "alpha")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := bucket(t, nc).Get(t.Context(), place); (err == nil) != (n.Version != 0) {
						t.Fatalf("step %d: Note = %q at version %d, but for the server that is: %v", step, n.Value, n.Version, err)
					}
					left := keys(t, nc)
					if name == "delete" && n.Version == 0 && len(left) > 0 {
						t.Errorf("step %d: %d keys are left of a note that was deleted", step, len(left))
					}
					if erased && len(left) > 0 && left[0].seq <= old[len(old)-1].seq {
						t.Errorf("step %d: the key %d is still there", step, left[0].seq)
					}
				}
			})
		}
	}
}

var errNothing = errors.New("no note is there")

// gate counts the requests of stores, and stops them or does something else first.
type gate struct {
	mu   sync.Mutex
	left int
	do   func()
}

// limit lets s send n requests.
func (g *gate) limit(s *jetstore.Store, n int) {
	g.mu.Lock()
	g.left, g.do = n, nil
	g.mu.Unlock()
	s.Redirect(fakeAPI, 5*time.Second, false)
	s.Guard(g.pass)
}

// before makes the gate call do once when the limit is reached, and then open.
func (g *gate) before(do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.do = do
}

func (g *gate) pass() bool {
	g.mu.Lock()
	g.left--
	n, do := g.left, g.do
	g.mu.Unlock()
	if do != nil && n == -1 {
		do()
	}
	return n >= 0 || do != nil
}

// newGate serves the API to which limit redirects.
func newGate(t *testing.T, nc *nats.Conn) *gate {
	t.Helper()
	g := &gate{}
	sub, err := nc.Subscribe(fakeAPI+">", func(req *nats.Msg) {
		if !g.pass() {
			body, _ := json.Marshal(map[string]any{"error": jetstream.APIError{Code: 500, ErrorCode: 1, Description: "killed"}})
			_ = req.Respond(body)
			return
		}
		m, err := nc.Request("$JS.API."+strings.TrimPrefix(req.Subject, fakeAPI), req.Data, 5*time.Second)
		if err != nil {
			t.Error(err)
			return
		}
		_ = req.RespondMsg(&nats.Msg{Header: m.Header, Data: m.Data})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return g
}

// TestListingSparesWhatIsNew has a list of notes find keys without a note, which is made before the keys are deleted: it stays.
func TestListingSparesWhatIsNew(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.PutNote(t.Context(), "", storage.NoteEvidence, note(0, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteKeys(t.Context(), "", storage.NoteEvidence, "alpha"); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Note(t.Context(), "", storage.NoteEvidence, "alpha"); err != nil || n.Version != v || string(n.Value) != "x" {
		t.Errorf("Note = %+v, %v, want the note at version %d", n, err, v)
	}
}

// TestNotesOfSeveralStores makes several stores put, erase and delete one note concurrently, each based on what it has read, while others list it.
// Each store finds the last value: the key of a current note is never missing, which would look as if there were no note.
func TestNotesOfSeveralStores(t *testing.T) {
	for name, deletes := range map[string]bool{"erased": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			nc, _ := start(t, t.TempDir())
			var wg sync.WaitGroup
			var begun, deleted atomic.Int64
			for i := range 3 {
				s, err := jetstore.Open(t.Context(), nc, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, change := range []func(context.Context, string, string, storage.Note) (conversation.Version, error){s.PutNote, s.EraseNote} {
					wg.Go(func() {
						for done := 0; done < 30; {
							n, err := s.Note(t.Context(), "", storage.NoteEvidence, "alpha")
							if err != nil || n.Version != 0 && string(n.Value) != "x" {
								t.Errorf("Note = %+v, %v", n, err)
								return
							}
							if deletes && i == 0 && done%6 == 5 {
								deleted.Add(1)
								if err := s.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
									t.Errorf("DeleteNote = %v", err)
									return
								}
							}
							_, err = change(t.Context(), "", storage.NoteEvidence, note(n.Version, "x"))
							switch {
							case err == nil && n.Version == 0:
								begun.Add(1)
								done++
							case err == nil:
								done++
							case !errors.Is(err, storage.ErrConflict):
								t.Errorf("a change = %v, want nil or ErrConflict", err)
								return
							}
						}
					})
				}
				wg.Go(func() {
					for range 30 {
						for n, err := range s.Notes(t.Context(), "", storage.NoteEvidence) {
							if err != nil || string(n.Value) != "x" {
								t.Errorf("Notes has %q, %v", n.Value, err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			if most := deleted.Load() + 1; begun.Load() > most {
				t.Errorf("%d times no note was found, want at most %d: it was deleted %d times", begun.Load(), most, most-1)
			}
		})
	}
}

// TestStreamOfKeys checks that Open makes a missing stream of keys, and refuses an unsuitable one.
func TestStreamOfKeys(t *testing.T) {
	good := jetstream.StreamConfig{Name: jetstore.Keys, Subjects: []string{"cortex.v1.key.>"}, Discard: jetstream.DiscardNew, AllowDirect: true}
	for name, tt := range map[string]struct {
		change func(c *jetstream.StreamConfig)
		want   string
	}{
		"missing":    {nil, ""},
		"the same":   {func(*jetstream.StreamConfig) {}, ""},
		"deny":       {func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "deny_delete is true"},
		"in memory":  {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage is Memory"},
		"old one go": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, "max_msgs_per_subject is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, _ := start(t, t.TempDir())
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				c := good
				tt.change(&c)
				if _, err := js.CreateStream(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
			s, err := jetstore.Open(t.Context(), nc, nil)
			if tt.want != "" {
				if !errors.Is(err, transport.ErrIncompatible) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Open = %v, want ErrIncompatible with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, 0, "x")
			wantNote(t, s, "x")
		})
	}
}
