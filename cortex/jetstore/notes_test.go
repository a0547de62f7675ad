package jetstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	natsbus "github.com/cortex-orchestrator/cortex/transport/nats"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// place is the key of the note in these tests.
const place = "_." + storage.NoteEvidence + ".alpha"

func note(v conversation.Version, value string) storage.Note {
	return storage.Note{Key: "alpha", Value: []byte(value), Version: v}
}

func put(t *testing.T, s storage.Notes, v conversation.Version, value string) conversation.Version {
	t.Helper()
	v, err := s.PutNote(t.Context(), "", storage.NoteEvidence, note(v, value))
	if err != nil {
		t.Fatalf("PutNote(%q) = %v", value, err)
	}
	return v
}

// wantNote checks the note by itself and in the list of all notes, and returns its version.
func wantNote(t *testing.T, s storage.Notes, want string) conversation.Version {
	t.Helper()
	n, err := s.Note(t.Context(), "", storage.NoteEvidence, "alpha")
	if err != nil || string(n.Value) != want || (n.Version == 0) != (want == "") {
		t.Fatalf("Note = %q, version %d, %v, want %q", n.Value, n.Version, err, want)
	}
	listed := ""
	for l, err := range s.Notes(t.Context(), "", storage.NoteEvidence) {
		if err != nil {
			t.Fatal(err)
		}
		listed += string(l.Value)
	}
	if listed != want {
		t.Fatalf("Notes has %q, want %q", listed, want)
	}
	return n.Version
}

// message is a message of a stream as the server stores it.
type message struct {
	seq  uint64
	data []byte
}

// messages returns the messages of a subject, the oldest first.
func messages(t *testing.T, nc *nats.Conn, stream, subject string) []message {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	var all []message
	for from := uint64(1); ; {
		m, err := st.GetMsg(t.Context(), from, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all, from = append(all, message{m.Sequence, m.Data}), m.Sequence+1
	}
}

func keys(t *testing.T, nc *nats.Conn) []message {
	return messages(t, nc, jetstore.Keys, "cortex.v1.key."+place)
}

// TestNoteIsUnreadableInFiles checks that the server's files never contain the plain text of a note, that its old values can be unsealed until it
// is erased or deleted, and that after that no file contains their keys, and the current note can be read.
func TestNoteIsUnreadableInFiles(t *testing.T) {
	const secret = "xyzzy-plugh"
	n := open(t, t.TempDir())
	var v conversation.Version
	learn := func() []byte {
		t.Helper()
		for i := range 20 {
			v = put(t, n, v, fmt.Sprint(secret, " ", i))
		}
		all := keys(t, n.nc)
		if len(all) != 1 || len(all[0].data) < 16 {
			t.Fatalf("%d keys after 20 notes, want one", len(all))
		}
		if len(filesWith(t, n.dir, string(all[0].data))) == 0 {
			t.Fatal("the key is in no file while it is needed")
		}
		return all[0].data
	}
	none := func(what string, text []byte) {
		t.Helper()
		if found := filesWith(t, n.dir, string(text)); len(found) > 0 {
			t.Errorf("%s is in %v", what, found)
		}
	}
	old := learn()
	if again, err := jetstore.Open(t.Context(), n.nc, nil); err != nil {
		t.Fatal(err)
	} else if got := wantNote(t, again, secret+" 19"); got != v {
		t.Errorf("its version is %d, want %d", got, v)
	}
	v, err := n.EraseNote(t.Context(), "", storage.NoteEvidence, note(v, "nothing special"))
	if err != nil {
		t.Fatal(err)
	}
	none("the key of what was erased", old)
	wantNote(t, n, "nothing special")
	deleted := learn()
	if err := n.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
		t.Fatal(err)
	}
	none("the key of what was deleted", deleted)
	wantNote(t, n, "")
	v = put(t, n, 0, "anew")
	none("the word", []byte(secret))
	n.stop()
	none("the word, after the server has stopped,", []byte(secret))
	none("the key of what was erased, after the server has stopped,", old)
	none("the key of what was deleted, after the server has stopped,", deleted)
	n = open(t, n.dir)
	if got := wantNote(t, n, "anew"); got != v {
		t.Errorf("its version is %d, want %d", got, v)
	}
}

// TestOlderNotes checks that notes of versions that did not seal them can be read, can conflict, and are sealed when they are written.
func TestOlderNotes(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	kv := bucket(t, nc)
	for name, change := range map[string]func(context.Context, string, string, storage.Note) (conversation.Version, error){"put": s.PutNote, "erase": s.EraseNote} {
		t.Run(name, func(t *testing.T) {
			revision, err := kv.Put(t.Context(), place, []byte(`["plain"]`))
			if err != nil {
				t.Fatal(err)
			}
			if v := wantNote(t, s, `["plain"]`); v != conversation.Version(revision) {
				t.Errorf("its version is %d, want %d", v, revision)
			}
			if _, err := change(t.Context(), "", storage.NoteEvidence, note(0, "x")); !errors.Is(err, storage.ErrConflict) {
				t.Errorf("a change at version 0 = %v, want ErrConflict", err)
			}
			if _, err := change(t.Context(), "", storage.NoteEvidence, note(conversation.Version(revision), "newer")); err != nil {
				t.Fatal(err)
			}
			wantNote(t, s, "newer")
			if e, err := kv.Get(t.Context(), place); err != nil || bytes.Contains(e.Value(), []byte("newer")) {
				t.Errorf("the server has %q, %v, want something that cannot be read", e.Value(), err)
			}
		})
	}
	if _, err := kv.Put(t.Context(), place, []byte(`["plain"]`)); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0); err != nil {
		t.Fatal(err)
	}
	wantNote(t, s, "")
}

func bucket(t *testing.T, nc *nats.Conn) jetstream.KeyValue {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), jetstore.Notes)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// TestNotesOfAgents checks that notes that everybody reads are not sealed.
func TestNotesOfAgents(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutNote(t.Context(), "", storage.NoteAgent, note(0, "a card")); err != nil {
		t.Fatal(err)
	}
	if e, err := bucket(t, nc).Get(t.Context(), "_.agent.alpha"); err != nil || string(e.Value()) != "a card" {
		t.Errorf("the server has %q, %v, want the card", e.Value(), err)
	}
}

// TestMovedNote checks that a note cannot be opened at another place or with another note's key.
func TestMovedNote(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, 0, "of alpha")
	kv := bucket(t, nc)
	e, err := kv.Get(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "_."+storage.NoteEvidence+".beta", e.Value()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Note(t.Context(), "", storage.NoteEvidence, "beta"); n.Value != nil || n.Version != 0 || err != nil {
		t.Errorf("Note of beta = %+v, %v, want none", n, err)
	}
	wantNote(t, s, "of alpha")
}

// TestSealedFromPeople checks that people, who read notes through their gateway, cannot read keys there.
func TestSealedFromPeople(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := auth.Init(dir); err != nil {
		t.Fatal(err)
	}
	creds, err := auth.AddUser(dir, "", "ada")
	if err != nil {
		t.Fatal(err)
	}
	server, err := natsbus.StartServer(t.Context(), &natsbus.ServerOptions{Dir: t.TempDir(), Auth: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	dial := func(o natsbus.Options) *natsbus.Bus {
		t.Helper()
		o.Server = server
		bus, err := natsbus.Dial(t.Context(), &o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	engine := dial(natsbus.Options{})
	if _, err := engine.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil { // opens the gateway
		t.Fatal(err)
	}
	store, err := jetstore.Open(t.Context(), engine.Conn(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := put(t, store, 0, "secret")
	if _, err := store.PutNote(t.Context(), "", storage.NoteAgent, note(0, "a card")); err != nil {
		t.Fatal(err)
	}

	ada := dial(natsbus.Options{Creds: creds})
	read, err := jetstore.Open(t.Context(), ada.Conn(), &jetstore.Options{API: ada.API()})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := read.Note(t.Context(), "", storage.NoteAgent, "alpha"); string(n.Value) != "a card" || err != nil {
		t.Errorf("Note = %q, %v, want the card", n.Value, err)
	}
	_, get := read.Note(t.Context(), "", storage.NoteEvidence, "alpha")
	var list error
	for _, err := range read.Notes(t.Context(), "", storage.NoteEvidence) {
		list = err
	}
	_, change := read.PutNote(t.Context(), "", storage.NoteEvidence, note(v, "x"))
	_, erase := read.EraseNote(t.Context(), "", storage.NoteEvidence, note(v, "x"))
	remove := read.DeleteNote(t.Context(), "", storage.NoteEvidence, "alpha", 0)
	for what, err := range map[string]error{"Note": get, "Notes": list, "PutNote": change, "EraseNote": erase, "DeleteNote": remove} {
		if !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("%s = %v, want ErrForbidden", what, err)
		}
	}
	key := keys(t, engine.Conn())[0]
	for method, body := range map[string]string{
		"DIRECT.GET." + jetstore.Keys: fmt.Sprintf(`{"seq":%d}`, key.seq), "DIRECT.GET." + jetstore.Keys + ".cortex.v1.key." + place: "",
		"STREAM.MSG.GET." + jetstore.Keys: fmt.Sprintf(`{"seq":%d}`, key.seq), "STREAM.MSG.DELETE." + jetstore.Keys: fmt.Sprintf(`{"seq":%d}`, key.seq),
		"STREAM.INFO." + jetstore.Keys: "", "STREAM.PURGE." + jetstore.Keys: "", "CONSUMER.CREATE." + jetstore.Keys: `{"config":{"ack_policy":"none"}}`,
	} {
		m, err := ada.Conn().Request(ada.API()+method, []byte(body), 5*time.Second)
		if err != nil {
			t.Errorf("%s is not answered: %v", method, err)
		} else if refused := m.Header.Get("Status") == "403" || bytes.Contains(m.Data, []byte(`"code":403`)); !refused || bytes.Contains(m.Data, key.data) {
			t.Errorf("%s is answered with %v %q, want a refusal", method, m.Header, m.Data)
		}
	}
	wantNote(t, store, "secret")
}

// TestManyNotes checks that reading all notes needs no request for each.
func TestManyNotes(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	const notes = 3000
	for i := range notes {
		if _, err := s.PutNote(t.Context(), "", storage.NoteEvidence, storage.Note{Key: fmt.Sprint("a", i), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	again, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	before, n := nc.Stats().OutMsgs, 0
	for _, err := range again.Notes(t.Context(), "", storage.NoteEvidence) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if sent := nc.Stats().OutMsgs - before; n != notes || sent > notes/10 {
		t.Errorf("%d notes are read with %d messages to the server, want %d with few", n, sent, notes)
	}
}
