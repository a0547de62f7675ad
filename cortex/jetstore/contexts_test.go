package jetstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// contexts returns the number of entries of each listed conversation, and the error of the list.
func contexts(t *testing.T, s storage.Store) (entries map[string]int, failed error) {
	t.Helper()
	entries = map[string]int{}
	for info, err := range s.Contexts(t.Context(), "") {
		if err != nil {
			return entries, err
		}
		entries[info.ContextID] = info.Entries
	}
	return entries, nil
}

// TestListAFewAtATime checks that a list asks for the last entries of a few conversations at a time, since appends wait while the server reads;
// that neither a list nor a read of notes makes a consumer, since a stream has a limited number; and that no request asks for more than there can
// be or, of a conversation that may be short, for much at once, since a gateway charges for what an answer may have.
func TestListAFewAtATime(t *testing.T) {
	const conversations, most, first = 150, 64, 32
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for i := range conversations {
		id := fmt.Sprint("c", i)
		if _, err := s.Append(t.Context(), "", id, 0, entry(1)); err != nil {
			t.Fatal(err)
		}
		want[id] = 1
	}
	for _, kind := range []string{storage.NoteAgent, "evidence"} {
		if _, err := s.PutNote(t.Context(), "", kind, storage.Note{Key: "a", Value: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	requests, err := nc.SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := contexts(t, s); err != nil || !maps.Equal(got, want) {
		t.Fatalf("Contexts = %v, %v, want %v", got, err, want)
	}
	for _, kind := range []string{storage.NoteAgent, "evidence"} {
		for _, err := range s.Notes(t.Context(), "", kind) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := countOf(t.Context(), t, s, "c0"); n != 1 || err != nil {
		t.Fatalf("%d entries, %v, want 1", n, err)
	}
	if err := nc.Publish("$JS.API.the.end", nil); err != nil {
		t.Fatal(err)
	}
	looked := map[string]bool{}
	for {
		m, err := requests.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == "$JS.API.the.end" {
			break
		}
		if strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.") {
			t.Errorf("the server is asked for %s", m.Subject)
		}
		var asked struct {
			Last     []string `json:"multi_last"`
			Next     string   `json:"next_by_subj"`
			Batch    int      `json:"batch"`
			MaxBytes int      `json:"max_bytes"`
		}
		if err := json.Unmarshal(m.Data, &asked); err == nil && strings.HasPrefix(asked.Next, "cortex.v1.log.") && asked.Batch > first {
			t.Errorf("the server is asked for %d messages of a conversation at first, want %d at most", asked.Batch, first)
		} else if err != nil || len(asked.Last) == 0 {
			continue
		}
		if len(asked.Last) > most || asked.Batch != len(asked.Last) || asked.MaxBytes == 0 {
			t.Errorf("the server is asked %s, want at most %d conversations, as many messages, and a bound of bytes", m.Data, most)
		}
		for _, subject := range asked.Last {
			looked[subject] = true
		}
	}
	if len(looked) != conversations {
		t.Errorf("%d of %d conversations were looked up", len(looked), conversations)
	}
}

// TestListWithLongLastEntries lists conversations whose last entries exceed one answer.
func TestListWithLongLastEntries(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for i := range 20 {
		e := entry(1)
		e.Cause.Payload.(*a2a.Message).Parts[0] = a2a.NewTextPart(strings.Repeat("long ", 100_000))
		id := fmt.Sprint("c", i)
		if _, err := s.Append(t.Context(), "", id, 0, e); err != nil {
			t.Fatal(err)
		}
		want[id] = 1
	}
	if got, err := contexts(t, s); err != nil || !maps.Equal(got, want) {
		t.Errorf("Contexts = %v, %v, want %v", got, err, want)
	}
}

// TestListFromSilentServer lists while the server is silent, and after it has ended.
func TestListFromSilentServer(t *testing.T) {
	nc, stop := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	answer(t, nc, func(int, []*nats.Msg) []*nats.Msg { return nil })
	s.Redirect(fakeAPI, 200*time.Millisecond, false)
	for _, when := range []string{"silent", "away"} {
		if got, err := contexts(t, s); !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("%s: Contexts = %v, %v, want ErrUnavailable", when, got, err)
		}
		if n, err := count(t.Context(), t, s); !errors.Is(err, transport.ErrUnavailable) {
			t.Errorf("%s: Load ends after %d entries with %v, want ErrUnavailable", when, n, err)
		}
		stop()
	}
}

// TestListEndsWithItsContext checks that a list without an answer ends with its context, long before its timeout.
func TestListEndsWithItsContext(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	answer(t, nc, func(int, []*nats.Msg) []*nats.Msg {
		cancel()
		return nil
	})
	s.Redirect(fakeAPI, time.Hour, false)
	ended := make(chan error, 1)
	go func() {
		var ending error
		for _, err := range s.Contexts(ctx, "") {
			ending = err
		}
		ended <- ending
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the context has ended", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it waits for the server")
	}
}
