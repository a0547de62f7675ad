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

	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/transport"
)

// contexts returns how many entries each listed conversation has, and how the list ended.
func contexts(t *testing.T, s cortex.Store) (entries map[string]int, failed error) {
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

// TestListAFewAtATime holds that a list has the server look up all conversations before it asks for all at once, a few at a time, and
// without their entries: who appends would wait for as long as it reads.
func TestListAFewAtATime(t *testing.T) {
	const conversations, most = 50, 16
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
	requests, err := nc.SubscribeSync("$JS.API.>")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := contexts(t, s); err != nil || !maps.Equal(got, want) {
		t.Fatalf("Contexts = %v, %v, want %v", got, err, want)
	}
	looked := map[string]bool{}
	for {
		m, err := requests.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("no consumer was asked for: %v", err)
		}
		if strings.HasPrefix(m.Subject, "$JS.API.CONSUMER.CREATE.") {
			break
		}
		if !strings.HasPrefix(m.Subject, "$JS.API.DIRECT.GET.") {
			continue
		}
		var asked struct {
			Seq  uint64   `json:"seq"`
			Last []string `json:"multi_last"`
		}
		if err := json.Unmarshal(m.Data, &asked); err != nil || asked.Seq <= conversations || len(asked.Last) > most {
			t.Errorf("the server is asked %s (%v), want at most %d conversations and none of their entries", m.Data, err, most)
		}
		for _, subject := range asked.Last {
			looked[subject] = true
		}
	}
	if len(looked) != conversations {
		t.Errorf("%d of %d conversations were looked up before all were asked for at once", len(looked), conversations)
	}
}

// TestListFromSilentServer has the server fall silent, and then be away.
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

// TestListEndsWithItsContext has the server owe what a list waits for: the list ends with its context, long before it would give up.
func TestListEndsWithItsContext(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Redirect(fakeAPI, time.Hour, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.FetchNothing(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the context has ended", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the server")
	}
}
