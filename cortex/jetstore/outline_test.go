package jetstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck/storechecktest"
)

// begin appends the first entries of this many conversations, and puts their outlines.
func begin(t *testing.T, s *jetstore.Store, conversations int) map[string]conversation.Version {
	t.Helper()
	all := map[string]conversation.Version{}
	for i := range conversations {
		id := fmt.Sprint("c", i)
		v, err := s.Append(t.Context(), "", id, 0, entry(1))
		if err == nil {
			err = s.PutOutline(t.Context(), "", id, storage.Outline{Version: v, Entries: 1, Owner: "user", Usage: llm.Usage{Output: i}})
		}
		if err != nil {
			t.Fatal(err)
		}
		all[id] = v
	}
	return all
}

// outlined returns the listed conversations, and whether each has an outline.
func outlined(t *testing.T, s storage.Store) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for info, err := range s.Contexts(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all[info.ContextID] = info.Outline != nil
	}
	return all
}

// asked returns the conversations whose entries a list requests from the server.
func asked(t *testing.T, nc *nats.Conn, list func()) []string {
	t.Helper()
	requests, err := nc.SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	defer requests.Unsubscribe() //nolint:errcheck // it ends with the test
	list()
	if err := nc.Publish("$JS.API.the.end", nil); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for {
		m, err := requests.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == "$JS.API.the.end" {
			return slices.Sorted(maps.Keys(found))
		}
		var asked struct {
			Last []string `json:"multi_last"`
			Next string   `json:"next_by_subj"`
		}
		if m.Subject != "$JS.API.DIRECT.GET.CORTEX_LOG" || json.Unmarshal(m.Data, &asked) != nil {
			continue
		}
		for _, subject := range append(asked.Last, asked.Next) {
			if id, ok := strings.CutPrefix(subject, "cortex.v1.log._."); ok {
				found[id] = true
			}
		}
	}
}

// TestListReadsWhatHasChanged checks that a list reads entries only of conversations whose logs have grown since their outlines were made, whatever
// the others contain.
func TestListReadsWhatHasChanged(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	const conversations = 100
	all := begin(t, s, conversations)
	list := func() {
		if n := len(outlined(t, s)); n != conversations {
			t.Errorf("%d conversations are listed, want %d", n, conversations)
		}
	}
	if got := asked(t, nc, list); len(got) > 0 {
		t.Errorf("a list asks for entries of %v, want none", got)
	}
	v, err := s.Append(t.Context(), "", "c7", all["c7"], entry(2))
	if err != nil {
		t.Fatal(err)
	}
	if got := asked(t, nc, list); !slices.Equal(got, []string{"c7"}) {
		t.Errorf("a list asks for entries of %v, want those of c7", got)
	}
	if err := s.PutOutline(t.Context(), "", "c7", storage.Outline{Version: v, Entries: 2}); err != nil {
		t.Fatal(err)
	}
	if got := asked(t, nc, list); len(got) > 0 {
		t.Errorf("a list asks for entries of %v, want none", got)
	}
}

// TestListWithDamagedOutlines checks that a list is complete, whatever happened to an outline or to all of them.
func TestListWithDamagedOutlines(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, 8)
	sealed, err := s.Note(t.Context(), "", storage.NoteOutline, "c0")
	if err != nil || len(sealed.Value) == 0 {
		t.Fatalf("Note = %+v, %v", sealed, err)
	}
	sealed.Value = []byte(`{"Version":-1}`)
	if _, err := s.PutNote(t.Context(), "", storage.NoteOutline, sealed); err != nil {
		t.Fatal(err)
	}
	const place = "$KV.CORTEX_NOTES._.outline."
	for id, value := range map[string]string{
		"c1": "", "c2": "null", "c3": `[`, "c4": "\x00cortex-sealed\x00", "c5": "\x00cortex-sealed\x00\x00\x00\x00\x00\x00\x00\x00\x01not sealed", "c6": strings.Repeat("x", 1<<20),
	} {
		if _, err := nc.Request(place+id, []byte(value), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"c7": true}
	for i := range 7 {
		want[fmt.Sprint("c", i)] = false
	}
	for range 2 {
		if got := outlined(t, s); !maps.Equal(got, want) {
			t.Errorf("%v are listed, want %v", got, want)
		}
		if err := js.PurgeStream(jetstore.Keys); err != nil { // all of them
			t.Fatal(err)
		}
		if s, err = jetstore.Open(t.Context(), nc, nil); err != nil {
			t.Fatal(err)
		}
		want["c7"] = false
	}
	var log bytes.Buffer
	if s, err = jetstore.Open(t.Context(), nc, &jetstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream("KV_" + jetstore.Notes); err != nil {
		t.Fatal(err)
	}
	if got := outlined(t, s); !maps.Equal(got, want) {
		t.Errorf("%v are listed, want %v", got, want)
	}
	if !strings.Contains(log.String(), "outlines of conversations cannot be read: a list reads their logs") {
		t.Errorf("without outlines the log says %q, want that they cannot be read", &log)
	}
}

// TestOutlineOfAnErasedConversation checks that a new conversation does not get the outline that a killed process has left of an erased one with
// the same id.
func TestOutlineOfAnErasedConversation(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, 2)
	if err := js.PurgeStream(jetstore.Stream, &nats.StreamPurgeRequest{Subject: "cortex.v1.log._.c1"}); err != nil {
		t.Fatal(err)
	}
	v, err := s.Append(t.Context(), "", "c1", 0, entry(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outlined(t, s), map[string]bool{"c0": true, "c1": false}; !maps.Equal(got, want) {
		t.Errorf("%v have outlines, want %v", got, want)
	}
	for info, err := range s.Contexts(t.Context(), "") {
		if err != nil || info.ContextID == "c1" && info.Version != v {
			t.Errorf("%s is listed at version %d, %v, want %d", info.ContextID, info.Version, err, v)
		}
	}
	// Conversations can begin without the stream of notes.
	if err := js.DeleteStream("KV_" + jetstore.Notes); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "", "c2", 0, entry(1)); err != nil {
		t.Errorf("Append without the stream of notes = %v", err)
	}
}

// TestOutlinesOfNobody checks that a list drops outlines of conversations that no longer exist, which a process that was killed during an erasure
// may have left.
func TestOutlinesOfNobody(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, 3)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := js.PurgeStream(jetstore.Stream, &nats.StreamPurgeRequest{Subject: "cortex.v1.log._.c1"}); err != nil {
		t.Fatal(err)
	}
	if got, want := outlined(t, s), map[string]bool{"c0": true, "c2": true}; !maps.Equal(got, want) {
		t.Errorf("%v are listed, want %v", got, want)
	}
	var kept []string
	for n, err := range s.Notes(t.Context(), "", storage.NoteOutline) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, n.Key)
	}
	slices.Sort(kept)
	if want := []string{"c0", "c2"}; !slices.Equal(kept, want) {
		t.Errorf("outlines of %v are kept, want of %v", kept, want)
	}
}

// TestDamagedHasNoOutline checks that an outline does not hide the damage of a conversation.
func TestDamagedHasNoOutline(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s, 3)
	s.NoteDamaged(t.Context(), jetstore.Damaged{ContextID: "c1", Why: "a test"})
	if got, want := outlined(t, s), map[string]bool{"c0": true, "c1": false, "c2": true}; !maps.Equal(got, want) {
		t.Errorf("%v have outlines, want %v", got, want)
	}
}

// TestFirstOutlineAsksLittle puts the first outline of a new conversation: that there is none is known since the conversation has begun, so nothing is
// read for it, but for whether the conversation was erased meanwhile. An outline that another process has put is not lost.
func TestFirstOutlineAsksLittle(t *testing.T) {
	n := open(t, t.TempDir())
	other, err := jetstore.Open(t.Context(), n.nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, n.Store, 1) // sets everything up
	v, err := n.Store.Append(t.Context(), "", "new", 0, entry(1))
	if err != nil {
		t.Fatal(err)
	}
	before := n.nc.Stats().OutMsgs
	first := storage.Outline{Version: v, Entries: 1, Owner: "user", Title: "hello", Turns: 1}
	if err := n.Store.PutOutline(t.Context(), "", "new", first); err != nil {
		t.Fatal(err)
	}
	if sent := n.nc.Stats().OutMsgs - before; sent != 3 { // the key, the note, and the look behind
		t.Errorf("the first outline took %d requests, want 3", sent)
	}
	if !outlined(t, n.Store)["new"] {
		t.Error("the outline is not listed")
	}

	if v, err = n.Store.Append(t.Context(), "", "both", 0, entry(1)); err != nil {
		t.Fatal(err)
	}
	theirs := storage.Outline{Version: v, Entries: 1, Owner: "user", Title: "theirs", Turns: 1}
	if err := other.PutOutline(t.Context(), "", "both", theirs); err != nil {
		t.Fatal(err)
	}
	ours := theirs
	ours.Title, ours.Turns = "ours", 2
	for range 2 { // the first one conflicts
		if err := n.Store.PutOutline(t.Context(), "", "both", ours); err != nil {
			t.Fatal(err)
		}
	}
	if !outlined(t, n.Store)["both"] {
		t.Error("the outline of another process is lost")
	}
}

// TestLostEnd puts the log and what is remembered of the store, which fit to each other, back as they were a moment before: what the check of the files cannot
// see is told by the outlines, which were not put back. Nothing is told of a store that is whole, and goes on.
func TestLostEnd(t *testing.T) {
	dir := t.TempDir()
	s := startChecked(t, dir)
	store := s.open(t)
	outlined(t, store)
	if got := store.LostEnd(); got != "" {
		t.Errorf("of a new log: %s", got)
	}
	begin(t, store, 2)
	s.srv.Remember(time.Now())
	earlier := storechecktest.Copy(t, dir)
	v, err := store.Append(t.Context(), "", "later", 0, entry(1))
	if err == nil {
		err = store.PutOutline(t.Context(), "", "later", storage.Outline{Version: v, Entries: 1, Owner: "user"})
	}
	if err != nil {
		t.Fatal(err)
	}
	outlined(t, store)
	if got := store.LostEnd(); got != "" {
		t.Errorf("of a log that goes on: %s", got)
	}
	s.srv.Remember(time.Now())
	killed := storechecktest.Copy(t, dir)
	lost := func(dir string, goesOn bool) string {
		t.Helper()
		s := startChecked(t, dir)
		defer s.stop()
		if found := s.srv.Found(); len(found) > 0 {
			t.Fatalf("the check of the files finds %+v, so the test has lost its point", found)
		}
		store := s.open(t)
		if goesOn {
			if _, err := store.Append(t.Context(), "", "another", 0, entry(1)); err != nil {
				t.Fatal(err)
			}
		}
		outlined(t, store)
		return store.LostEnd()
	}
	if got := lost(storechecktest.Copy(t, killed), true); got != "" {
		t.Errorf("of a log that was killed: %s", got)
	}
	for _, emptied := range []bool{false, true} {
		dir := storechecktest.Copy(t, killed)
		log := filepath.Join("jetstream", "$G", "streams", jetstore.Stream)
		from := earlier
		if emptied {
			from = t.TempDir()
			s := startChecked(t, from)
			s.open(t)
			s.srv.Remember(time.Now())
			from = storechecktest.Copy(t, from)
			s.stop()
		}
		err := errors.Join(os.RemoveAll(filepath.Join(dir, log)), os.CopyFS(filepath.Join(dir, log), os.DirFS(filepath.Join(from, log))),
			os.Rename(filepath.Join(from, "remembered.json"), filepath.Join(dir, "remembered.json")))
		if err != nil {
			t.Fatal(err)
		}
		if got := lost(dir, !emptied); !strings.HasPrefix(got, "lost: ") {
			t.Errorf("of a log that was put back (from its beginning: %v) it says %q", emptied, got)
		}
	}
}
