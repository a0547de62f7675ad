package retain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/datadir"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/internal/taskfile"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

const day = 24 * time.Hour

// addTurn appends a turn to a conversation: answered, or with an open task.
func addTurn(t *testing.T, store storage.Store, contextID string, at time.Time, answered bool) {
	t.Helper()
	conv, err := storage.Load(t.Context(), store, "", contextID)
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint(contextID, "-", conv.Seq)
	e := &conversation.Entry{
		Seq: conv.Seq + 1, Time: at, Turn: id, Sent: at, Deadline: at.Add(5 * time.Minute),
		Cause: &transport.Event{ID: id, Time: at, From: "user", To: transport.Cortex, ContextID: contextID, Payload: &a2a.Message{
			ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hello")},
		}},
		Decision: &llm.Decision{Kind: llm.KindRespond, Say: "hello"},
	}
	if !answered {
		e.Decision = &llm.Decision{Kind: llm.KindDelegate, Delegations: []llm.Delegation{{ID: "a", Agent: "worker", Task: "work"}}}
	}
	if _, err := store.Append(t.Context(), "", contextID, conv.Version, e); err != nil {
		t.Fatal(err)
	}
}

// TestKeepFiles lets a replica look after files while it leads: an orphaned file is removed within some minutes, also if another replica led at
// first, but not while a part of the store is damaged.
func TestKeepFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var leads, damaged atomic.Bool
		var left atomic.Pointer[[]erase.Loose]
		done := make(chan struct{})
		go func() {
			defer close(done)
			Files(ctx, leads.Load, damaged.Load, store, bus, "", quartz(time.Now, 0), func(all []erase.Loose) { left.Store(&all) }, slog.New(slog.DiscardHandler))
		}()
		ref, err := transport.PutFile(ctx, bus, "", "c", "user:ada", strings.NewReader("words"), 10)
		if err != nil {
			t.Fatal(err)
		}
		there := func() bool {
			_, err := bus.Chunk(ctx, ref.Object, 0)
			return err == nil
		}
		<-time.After(55 * time.Minute)
		if !there() || left.Load() != nil {
			t.Errorf("who does not lead looks after files: they are there %v, %v was told", there(), left.Load())
		}
		leads.Store(true)
		<-time.After(time.Minute)
		if told := left.Load(); !there() || told == nil || !slices.Equal(*told, []erase.Loose{{From: "user:ada", Files: 1, Bytes: 21}}) {
			t.Errorf("who leads has left the file %v, and told %v, want that of ada", there(), told)
		}
		<-time.After(20 * time.Minute)
		if told := left.Load(); there() || len(*told) > 0 {
			t.Errorf("20 minutes later the file is there %v, and %v is told, want nothing", there(), *told)
		}
		damaged.Store(true)
		if ref, err = transport.PutFile(ctx, bus, "", "c", "user:ada", strings.NewReader("words"), 10); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Hour)
		if !there() {
			t.Error("a file is removed while something of the store is damaged")
		}
		damaged.Store(false)
		<-time.After(6 * time.Minute)
		if there() {
			t.Error("nothing is damaged any more, and a file of which nothing speaks is there")
		}
		cancel()
		<-done
	})
}

func contextIDs(t *testing.T, store storage.Store) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for info, err := range store.Contexts(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		ids[info.ContextID] = true
	}
	return ids
}

func TestSweepRetained(t *testing.T) {
	store, bus := memstore.New(), memory.New(nil)
	defer bus.Close()
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	addTurn(t, store, "old", now.Add(-31*day), true)
	addTurn(t, store, "open", now.Add(-31*day), false)
	addTurn(t, store, "touched", now.Add(-90*day), true)
	addTurn(t, store, "touched", now.Add(-29*day), true)
	addTurn(t, store, "just", now.Add(-30*day), true)
	addTurn(t, store, "oldest", now.Add(-300*day), true)
	// Events that wait for an old conversation are deleted with it.
	away := transport.Inbox("", "away")
	for _, c := range []string{"old", "open"} {
		if err := bus.Publish(t.Context(), away, &transport.Event{ID: c, From: transport.Cortex, ContextID: c, Payload: &transport.Cancel{}}); err != nil {
			t.Fatal(err)
		}
	}

	plain := struct { // without dead letters
		transport.Transport
		transport.Eraser
	}{bus, bus}
	// What agents on this machine keep of it, too.
	data, kept := t.TempDir(), []string(nil)
	for _, c := range []string{"old", "open"} {
		peer := filepath.Join(datadir.A2A(data), "example.com-1")
		for _, dir := range []string{datadir.Questions(data), filepath.Join(datadir.MCP(data), "mcp_box", "calls"), filepath.Join(peer, "tasks"), filepath.Join(peer, "contexts")} {
			path := (&taskfile.Folder{Dir: dir}).Path("", c, "task")
			if err := taskfile.Write(path, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if c == "open" {
				kept = append(kept, path)
			}
		}
	}
	n, err := sweepRetained(t.Context(), store, plain, "", data, quartz(func() time.Time { return now }, 30*day), slog.New(slog.DiscardHandler))
	if n != 2 || err != nil {
		t.Errorf("sweepRetained = %d, %v, want 2", n, err)
	}
	if d := cmp.Diff(map[string]bool{"open": true, "touched": true, "just": true}, contextIDs(t, store)); d != "" {
		t.Errorf("what is left differs (-want +got):\n%s", d)
	}
	var left []string
	err = filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	slices.Sort(kept)
	if d := cmp.Diff(kept, left); d != "" || err != nil {
		t.Errorf("what agents keep differs (-want +got):\n%s%v", d, err)
	}
	if n, err := bus.Waiting(t.Context(), away); n != 1 || err != nil {
		t.Errorf("%d events wait, %v, want the one of the open conversation", n, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := sweepRetained(ctx, store, bus, "", t.TempDir(), quartz(func() time.Time { return now }, time.Hour), slog.New(slog.DiscardHandler)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("sweepRetained with a context that has ended = %d, %v", n, err)
	}
}

// misled is a store whose list of conversations has outlines of earlier ones with the same ids.
type misled struct {
	*memstore.Store
	put map[string]storage.Outline
}

func (m *misled) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		for info, err := range m.Store.Contexts(ctx, tenant) {
			info.Version, info.Updated = info.Version+1000, info.Updated.Add(-1000*day)
			if !yield(info, err) {
				return
			}
		}
	}
}

func (m *misled) PutOutline(_ context.Context, _, contextID string, o storage.Outline) error {
	m.put[contextID] = o
	return nil
}

// TestSweepRetainedLooksAtTheLog checks that a conversation whose outline is wrong is kept or deleted according to its log, and that the outline is
// corrected.
func TestSweepRetainedLooksAtTheLog(t *testing.T) {
	store, bus := &misled{memstore.New(), map[string]storage.Outline{}}, memory.New(nil)
	defer bus.Close()
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	addTurn(t, store, "old", now.Add(-31*day), true)
	addTurn(t, store, "open", now.Add(-31*day), false)
	addTurn(t, store, "new", now.Add(-29*day), true)
	n, err := sweepRetained(t.Context(), store, bus, "", t.TempDir(), quartz(func() time.Time { return now }, 30*day), slog.New(slog.DiscardHandler))
	if n != 1 || err != nil {
		t.Errorf("sweepRetained = %d, %v, want 1", n, err)
	}
	if d := cmp.Diff(map[string]bool{"open": true, "new": true}, contextIDs(t, store)); d != "" {
		t.Errorf("what is left differs (-want +got):\n%s", d)
	}
	for id, days := range map[string]time.Duration{"new": 29, "open": 31} {
		if o := store.put[id]; o.Version == 0 || !o.Updated.Equal(now.Add(-days*day)) {
			t.Errorf("the outline %+v of %s was put, want one of %d days ago", o, id, days)
		}
	}
}

// TestRetainedWhileFilesCome stores a file in an old conversation: its message may still come, so that conversation stays, and no other.
func TestRetainedWhileFilesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		for _, id := range []string{"uploading", "old"} {
			addTurn(t, store, id, time.Now().Add(-31*day), true)
		}
		if _, err := transport.PutFile(t.Context(), bus, "", "uploading", "user:ada", strings.NewReader("words"), 10); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"uploading", ""} {
			n, err := sweepRetained(t.Context(), store, bus, "", t.TempDir(), quartz(time.Now, 30*day), slog.New(slog.DiscardHandler))
			if left := contextIDs(t, store); n != 1 || err != nil || left[want] != (want != "") || len(left) > 1 {
				t.Errorf("sweepRetained = %d, %v, and %v are left, want %q", n, err, left, want)
			}
			<-time.After(20 * time.Minute)
		}
	})
}

// proven is a transport that knows who sends.
type proven struct{ *memory.Bus }

func (proven) Sender() (tenant, from string) { return "", transport.Cortex }

// TestRetainedWhileFilesOfItsPeopleCome stores files in old conversations where senders are known: those of who may not speak there keep none from being
// deleted, and go with it, and it is said which one stays, and whose file that is for.
func TestRetainedWhileFilesOfItsPeopleCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		for id, from := range map[string]string{"own": "user", "others": "user:mallory", "agents": "worker"} {
			addTurn(t, store, id, time.Now().Add(-31*day), true)
			if _, err := transport.PutFile(t.Context(), bus, "", id, from, strings.NewReader("words"), 10); err != nil {
				t.Fatal(err)
			}
		}
		var log strings.Builder
		n, err := sweepRetained(t.Context(), store, proven{bus}, "", t.TempDir(), quartz(time.Now, 30*day), slog.New(slog.NewTextHandler(&log, nil)))
		if left := contextIDs(t, store); n != 2 || err != nil || len(left) != 1 || !left["own"] {
			t.Errorf("sweepRetained = %d, %v, and %v are left, want own", n, err, left)
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "context_id=own from=user\n") {
			t.Errorf("the log says:\n%s", said)
		}
		for o, err := range bus.Objects(t.Context(), "") {
			if err != nil || o.ContextID != "own" {
				t.Errorf("%+v is left, %v", o, err)
			}
		}
	})
}

// TestKeepRetained lets months pass.
func TestKeepRetained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		addTurn(t, store, "c", time.Now(), true)
		inbox := transport.Inbox("", "worker")
		sub, err := bus.Subscribe(t.Context(), inbox, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = sub.Serve(ctx, func(context.Context, *transport.Event) error { return transport.Permanent(errors.New("no")) })
		}()
		if err := bus.Publish(t.Context(), inbox, &transport.Event{ID: "1", From: "user", ContextID: "other", Payload: &transport.Cancel{}}); err != nil {
			t.Fatal(err)
		}
		var leads atomic.Bool
		go Conversations(ctx, leads.Load, store, bus, "", t.TempDir(), quartz(time.Now, 30*day), slog.New(slog.DiscardHandler))
		left := func() (conversations, dead int) {
			for range bus.DeadLetters(t.Context(), "") {
				dead++
			}
			return len(contextIDs(t, store)), dead
		}
		want := func(when string, conversations, dead int) {
			t.Helper()
			synctest.Wait()
			if c, d := left(); c != conversations || d != dead {
				t.Errorf("%s: %d conversations and %d dead letters, want %d and %d", when, c, d, conversations, dead)
			}
		}
		time.Sleep(29 * day)
		want("after 29 days", 1, 1)
		time.Sleep(2 * day)
		want("after 31 days, led by somebody else", 1, 1)
		leads.Store(true)
		time.Sleep(time.Hour)
		want("an hour later, led by this one", 0, 0)
	})
}

func TestRetention(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		back string
	}{
		{"30d", 30 * day, "30d"},
		{"36h", 36 * time.Hour, "36h0m0s"},
		{"0", 0, ""},
		{"1m", time.Minute, "1m0s"},
		{"1s", -1, ""},
		{"-1d", -1, ""},
		{"d", -1, ""},
		{"99999999999d", -1, ""},
		{"213505d", -1, ""},  // an overflow: the remainder would be a day
		{"-200000d", -1, ""}, // an overflow in the other direction: 13 days
		{"a while", -1, ""},
	} {
		var r Period
		err := r.Set(c.text)
		if c.want < 0 != (err != nil) || err == nil && (time.Duration(r) != c.want || r.String() != c.back) {
			t.Errorf("Set(%q) = %v, %v, want %v, %q", c.text, time.Duration(r), err, c.want, c.back)
		}
	}
}

// TestFinishDeletions checks that what an interrupted deletion left is deleted, with what agents on this machine keep of it.
func TestFinishDeletions(t *testing.T) {
	data := t.TempDir()
	path := (&taskfile.Folder{Dir: datadir.Questions(data)}).Path("", "gone", "task")
	if err := taskfile.Write(path, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		store, bus := memstore.New(), memory.New(nil)
		defer bus.Close()
		addTurn(t, store, "gone", time.Now(), true)
		if _, err := store.PutNote(t.Context(), "", storage.NoteDeletion, storage.Note{Key: "gone", Value: []byte(`{"last":100}`)}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go Deletions(ctx, func() bool { return true }, &erase.Deletions{Store: store, Bus: bus}, data, slog.New(slog.DiscardHandler))
		<-time.After(3 * deletionsEvery)
		synctest.Wait()
		if ids := contextIDs(t, store); len(ids) != 0 {
			t.Errorf("%v is left", ids)
		}
	})
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the question of a deleted conversation is left: %v", err)
	}
}

// counted counts the notes that are listed.
type counted struct {
	*memstore.Store
	notes int
}

func (s *counted) Notes(ctx context.Context, tenant, kind string) iter.Seq2[storage.Note, error] {
	return func(yield func(storage.Note, error) bool) {
		for n, err := range s.Store.Notes(ctx, tenant, kind) {
			s.notes++
			if !yield(n, err) {
				return
			}
		}
	}
}

func (s *counted) NewNotes(ctx context.Context, tenant, kind string, since conversation.Version) ([]string, conversation.Version, error) {
	keys, now, err := s.Store.NewNotes(ctx, tenant, kind, since)
	s.notes += len(keys)
	return keys, now, err
}

// TestSweepListsNotesOnce: what is beside conversations is listed once for all that are deleted together, and what comes meanwhile is deleted too.
func TestSweepListsNotesOnce(t *testing.T) {
	store, bus := &counted{Store: memstore.New()}, memory.New(nil)
	defer bus.Close()
	const all = 50
	now := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	put := func(contextID, word string) {
		t.Helper()
		if _, err := store.PutNote(t.Context(), "", storage.NotePush, storage.Note{Key: contextID + "." + word}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all {
		id := fmt.Sprint("c", i)
		addTurn(t, store, id, now.Add(-31*day), true)
		put(id, "a")
	}
	late := lateNotes{counted: store, put: func(contextID string) { put(contextID, "late") }}
	n, err := sweepRetained(t.Context(), late, bus, "", t.TempDir(), quartz(func() time.Time { return now }, 30*day), slog.New(slog.DiscardHandler))
	if n != all || err != nil {
		t.Errorf("%d conversations of %d are deleted, %v", n, all, err)
	}
	if got := store.notes; got != 2*all {
		t.Errorf("%d notes are listed, want the %d that there were and those that came", got, all)
	}
	for n := range store.Store.Notes(t.Context(), "", storage.NotePush) {
		t.Errorf("the note %s is left", n.Key)
	}
}

// lateNotes is a store in which somebody puts a note beside a conversation while that is deleted.
type lateNotes struct {
	*counted
	put func(contextID string)
}

func (s lateNotes) PutNote(ctx context.Context, tenant, kind string, n storage.Note) (conversation.Version, error) {
	v, err := s.counted.PutNote(ctx, tenant, kind, n)
	if kind == storage.NoteDeletion && err == nil {
		s.put(n.Key)
	}
	return v, err
}
