package jetstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/nats-io/nats.go"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

func entry(seq uint64) *conversation.Entry {
	m := &a2a.Message{ID: fmt.Sprint("m-", seq), Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart("hello")}}
	return &conversation.Entry{Seq: seq, Cause: &transport.Event{ID: m.ID, From: "user", To: transport.Cortex, ContextID: "c", Payload: m}}
}

func fill(t *testing.T, s storage.Store, n int) (last conversation.Version) {
	t.Helper()
	for i := range n {
		v, err := s.Append(t.Context(), "", "c", last, entry(uint64(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		last = v
	}
	return last
}

// count loads the conversation and returns its number of entries, which must be numbered from 1, and the error of the load.
func count(ctx context.Context, t *testing.T, s storage.Store) (n int, failed error) {
	t.Helper()
	for e, err := range s.Load(ctx, "", "c", 0) {
		if err != nil {
			return n, err
		}
		if n++; e.Seq != uint64(n) {
			t.Fatalf("entry %d has Seq %d", n, e.Seq)
		}
	}
	return n, nil
}

const fakeAPI = "fake.api."

// answer serves the API to which s is redirected: it passes requests on to the server, and sends the result of edit for the n-th batch of a direct
// get, from 0.
func answer(t *testing.T, nc *nats.Conn, edit func(n int, answer []*nats.Msg) []*nats.Msg) {
	t.Helper()
	const timeout = 5 * time.Second
	n := 0
	sub, err := nc.Subscribe(fakeAPI+">", func(req *nats.Msg) {
		method := strings.TrimPrefix(req.Subject, fakeAPI)
		if !strings.HasPrefix(method, "DIRECT.GET.") || !strings.Contains(string(req.Data), `"batch"`) {
			m, err := nc.Request("$JS.API."+method, req.Data, timeout)
			if err != nil {
				t.Error(err)
				return
			}
			_ = req.RespondMsg(&nats.Msg{Header: m.Header, Data: m.Data})
			return
		}
		inbox := nc.NewInbox()
		replies, err := nc.SubscribeSync(inbox)
		if err == nil {
			err = nc.PublishRequest("$JS.API."+method, inbox, req.Data)
		}
		var all []*nats.Msg
		for err == nil {
			var m *nats.Msg
			if m, err = replies.NextMsg(timeout); err == nil {
				all = append(all, m)
				if m.Header.Get("Status") != "" {
					break
				}
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
		_ = replies.Unsubscribe()
		for _, m := range edit(n, all) {
			_ = req.RespondMsg(&nats.Msg{Header: m.Header, Data: m.Data})
		}
		n++
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

func with(m *nats.Msg, header, value string) *nats.Msg {
	c := nats.NewMsg(m.Subject)
	c.Data = m.Data
	maps.Copy(c.Header, m.Header)
	c.Header.Set(header, value)
	return c
}

func status(code string) []*nats.Msg {
	return []*nats.Msg{{Header: nats.Header{"Status": {code}, "Description": {"as the test says"}}}}
}

// TestLoadIsComplete checks that an incomplete answer is never taken for the end of a conversation.
func TestLoadIsComplete(t *testing.T) {
	const entries = 1500 // two batches
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, entries)

	const silence = "stopped answering"
	type answers = []*nats.Msg
	cut := func(a answers, i int) answers { return append(a[:i:i], a[i+1:]...) }
	tests := []struct {
		name string
		edit func(n int, a answers) answers
		want string // in the error; empty: the load is complete
	}{
		{"whole", func(_ int, a answers) answers { return a }, ""},
		{"nothing", func(int, answers) answers { return nil }, silence},
		{"no end", func(_ int, a answers) answers { return a[:len(a)-1] }, silence},
		{"no end later", func(n int, a answers) answers { return a[:len(a)-n] }, silence},
		{"no first", func(_ int, a answers) answers { return a[1:] }, "missing"},
		{"one less", func(_ int, a answers) answers { return cut(a, 5) }, "missing"},
		{"no last", func(_ int, a answers) answers { return cut(a, len(a)-2) }, "missing"},
		{"only the end", func(_ int, a answers) answers { return a[len(a)-1:] }, "missing"},
		{"empty", func(_ int, a answers) answers { return answers{with(a[len(a)-1], "Nats-Last-Sequence", "0")} }, "empty"},
		{"end without number", func(_ int, a answers) answers { return append(a[:len(a)-1], with(a[len(a)-1], "Nats-Num-Pending", "")) }, "Nats-Num-Pending"},
		{"gone later", func(n int, a answers) answers {
			if n == 1 {
				return status("404")
			}
			return a
		}, "cannot be read any more"},
		{"gone in the midst", func(_ int, a answers) answers { return append(a[:3:3], status("404")...) }, "404"},
		{"refused", func(int, answers) answers { return status("408") }, "408 as the test says"},
		{"other subject", func(_ int, a answers) answers {
			return append(answers{with(a[0], "Nats-Subject", "cortex.v1.log.=.other")}, a[1:]...)
		}, "cortex.v1.log.=.other"},
		{"again", func(n int, a answers) answers {
			if n == 1 {
				a[0] = with(a[0], "Nats-Sequence", "1")
			}
			return a
		}, "message 1 of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer(t, nc, tt.edit)
			timeout := 10 * time.Second
			if tt.want == silence {
				timeout = 200 * time.Millisecond
			}
			s.Redirect(fakeAPI, timeout, false)
			n, err := count(t.Context(), t, s)
			switch {
			case tt.want == "" && (err != nil || n != entries):
				t.Errorf("Load ends after %d entries with %v, want %d and no error", n, err, entries)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Load ends after %d entries with %v, want an error with %q", n, err, tt.want)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		if n, err := count(t.Context(), t, s); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("Load ends after %d entries with %v, want nats.ErrNoResponders", n, err)
		}
	})
}

// TestReplicaBehind checks that a load includes everything that the leader has acknowledged, whichever replica answers.
func TestReplicaBehind(t *testing.T) {
	const entries = 5
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, entries)
	s.Redirect(fakeAPI, 2*time.Second, true)

	// behind truncates an answer to that of a replica with only the first messages.
	behind := func(a []*nats.Msg, have int) []*nats.Msg {
		if have == 0 {
			return status("404")
		}
		end := with(a[len(a)-1], "Nats-Last-Sequence", a[have-1].Header.Get("Nats-Sequence"))
		return append(a[:have:have], end)
	}
	tests := []struct {
		name string
		have []int // messages that the replica has at each request; the last number applies to all later ones
		want int
	}{
		{"up to date", []int{5}, 5},
		{"empty", []int{0, 0, 5}, 5},
		{"catching up", []int{2, 1, 2}, 5},
		{"never", []int{3, 0}, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer(t, nc, func(n int, a []*nats.Msg) []*nats.Msg {
				return behind(a, tt.have[min(n, len(tt.have)-1)])
			})
			n, err := count(t.Context(), t, s)
			if tt.want < 0 && (err == nil || !strings.Contains(err.Error(), "is behind")) || tt.want >= 0 && (err != nil || n != tt.want) {
				t.Errorf("Load ends after %d entries with %v, want %d", n, err, tt.want)
			}
		})
	}
	t.Run("another one", func(t *testing.T) {
		answer(t, nc, func(n int, a []*nats.Msg) []*nats.Msg {
			switch n {
			case 0: // has all, and sends two of them
				a = behind(a, 2)
				a[2] = with(a[2], "Nats-Num-Pending", "3")
			case 1: // has nothing after those
				a = status("404")
			}
			return a
		})
		if n, err := count(t.Context(), t, s); err != nil || n != entries {
			t.Errorf("Load ends after %d entries with %v, want %d", n, err, entries)
		}
	})
	t.Run("nothing new", func(t *testing.T) {
		answer(t, nc, func(_ int, a []*nats.Msg) []*nats.Msg {
			t.Error("a batch is asked for, which has the server read blocks of the log")
			return a
		})
		for _, replicated := range []bool{true, false} {
			s.Redirect(fakeAPI, 2*time.Second, replicated)
			for e, err := range s.Load(t.Context(), "", "c", last) {
				t.Errorf("Load after the last version yields %v, %v", e, err)
			}
			for e, err := range s.Load(t.Context(), "", "nobody", 0) {
				t.Errorf("Load of an empty conversation yields %v, %v", e, err)
			}
		}
	})
}

// TestLoadAsksAgain makes the first server stay silent or send a part of the answer, and the rest late: the next one answers.
func TestLoadAsksAgain(t *testing.T) {
	const entries = 5
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, entries)
	s.Redirect(fakeAPI, time.Minute, false)
	for name, said := range map[string]int{"nothing": 0, "a part": 3} {
		t.Run(name, func(t *testing.T) {
			answer(t, nc, func(n int, a []*nats.Msg) []*nats.Msg {
				if n == 0 {
					return a[:said]
				}
				return a
			})
			if n, err := count(t.Context(), t, s); err != nil || n != entries {
				t.Errorf("Load ends after %d entries with %v, want %d", n, err, entries)
			}
		})
	}
}

func TestLoadOfUnreadableEntry(t *testing.T) {
	nc, _ := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	if _, err := nc.Request("cortex.v1.log._.c", []byte("not an entry"), time.Second); err != nil {
		t.Fatal(err)
	}
	if n, err := count(t.Context(), t, s); n != 1 || !errors.Is(err, conversation.ErrDamaged) || !strings.Contains(err.Error(), "at version 2, cannot be read") {
		t.Errorf("Load ends after %d entries with %v, want 1 and ErrDamaged that names version 2", n, err)
	}
}

// TestServerAway checks that calls return an error when the server does not answer.
func TestServerAway(t *testing.T) {
	nc, stop := start(t, t.TempDir())
	s, err := jetstore.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 1)
	stop()
	if n, err := count(t.Context(), t, s); err == nil {
		t.Errorf("Load ends after %d entries without an error", n)
	}
	if _, err := s.Append(t.Context(), "", "c", last, entry(2)); err == nil || errors.Is(err, storage.ErrConflict) {
		t.Errorf("Append = %v, want an error that is no conflict", err)
	}
	for info, err := range s.Contexts(t.Context(), "") {
		if err == nil {
			t.Errorf("Contexts yields %v", info)
		}
	}
	if _, _, err := s.Snapshot(t.Context(), "", "c"); err == nil {
		t.Error("Snapshot without a server gives no error")
	}
}
