package cortex_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
)

// outlining is a store with outlines that can block PutOutline.
type outlining struct {
	*memstore.Store
	hold chan struct{} // nil blocks nothing
	fail error         // of PutOutline

	mu    sync.Mutex
	kept  map[string]storage.Outline
	times int // number of calls
}

var _ storage.Outlines = (*outlining)(nil)

func (s *outlining) PutOutline(ctx context.Context, _, contextID string, o storage.Outline) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.kept[contextID] = o
	s.times++
	return nil
}

func (s *outlining) Contexts(ctx context.Context, tenant string) iter.Seq2[storage.ContextInfo, error] {
	return func(yield func(storage.ContextInfo, error) bool) {
		for info, err := range s.Store.Contexts(ctx, tenant) {
			s.mu.Lock()
			if o, ok := s.kept[info.ContextID]; ok && o.Entries == info.Entries {
				info.Outline = &o
			}
			s.mu.Unlock()
			if !yield(info, err) {
				return
			}
		}
	}
}

// outlined returns the outline of the world's conversation, and how often any outline was put.
func (s *outlining) outlined() (o storage.Outline, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[theContext], s.times
}

func outliningWorld(t *testing.T, prepare func(*world)) (*world, *outlining) {
	w := newWorld(t, simple(asks))
	w.diligent = true
	if prepare != nil {
		prepare(w)
	}
	w.stop()
	s := &outlining{Store: w.store.(*memstore.Store), kept: map[string]storage.Outline{}}
	w.store = s
	return w, s
}

// wantOutline checks that the stored outline is that of the log.
func (w *world) wantOutline(s *outlining) {
	w.t.Helper()
	log := entries(w.t, s)
	conv, err := storage.Load(w.t.Context(), s, "", theContext)
	if err != nil {
		w.t.Fatal(err)
	}
	got, _ := s.outlined()
	if d := cmp.Diff(storage.OutlineOf(conv, got.Title, log[len(log)-1].Time), got); d != "" {
		w.t.Errorf("the outline differs (-log +kept):\n%s", d)
	}
	if got.Owner != "user" || got.Entries != len(log) || got.Life == "" {
		w.t.Errorf("the outline of %d entries is %+v", len(log), got)
	}
}

// TestOutlinesFail has a store take no outline: that is a warning after a while, once.
func TestOutlinesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := outliningWorld(t, nil)
		s.fail = transport.ErrTooLarge
		var log bytes.Buffer
		w.start(cortex.Config{Decider: simple(asks), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 40 {
			w.say(fmt.Sprint("m", i), "alpha: something")
			pass(time.Minute)
		}
		w.stop()
		if n := strings.Count(log.String(), "outlines of conversations cannot be kept"); n != 1 {
			t.Errorf("it is told %d times, want once:\n%s", n, log.String())
		}
	})
}

// TestOutlinesFollow checks that the outline of an active conversation is put within seconds, once for all entries of that time, and that no
// turn waits for it.
func TestOutlinesFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := outliningWorld(t, nil)
		s.hold = make(chan struct{})
		w.start(cortex.Config{Decider: simple(asks)})
		pass(time.Minute) // nothing is missing
		for i := range 20 {
			w.say(fmt.Sprint("m", i), "alpha: something")
		}
		pass(6 * time.Second)
		w.say("late", "alpha: while one is held up")
		if n := len(w.answers()); n != 21 {
			t.Errorf("%d messages are answered while outlines are held up, want 21", n)
		}
		close(s.hold)
		pass(20 * time.Second)
		w.wantOutline(s)
		if _, times := s.outlined(); times > 2 {
			t.Errorf("outlines are put %d times for 21 turns, want twice at most", times)
		}
		pass(time.Hour)
		if _, times := s.outlined(); times > 2 {
			t.Errorf("outlines are put %d times, want none when nothing happens", times)
		}
	})
}

// TestOutlinesAreFilledIn checks that a conversation without an outline gets one when an orchestrator starts, or an hour later, and that one with an
// outline is not read.
func TestOutlinesAreFilledIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := outliningWorld(t, func(w *world) { w.say("m", "alpha: before there were outlines") })
		for range 2 {
			w.start(cortex.Config{Decider: simple(asks)})
			pass(time.Minute)
			w.wantOutline(s)
			w.stop()
		}
		if _, times := s.outlined(); times != 1 {
			t.Errorf("outlines are put %d times, want once", times)
		}
		w.start(cortex.Config{Decider: simple(asks)})
		pass(time.Minute)
		s.mu.Lock()
		clear(s.kept) // as another process might
		s.mu.Unlock()
		pass(2 * time.Hour)
		w.wantOutline(s)
	})
}

// TestOutlineOfErased checks that no outline of an erased conversation is put.
func TestOutlineOfErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := outliningWorld(t, nil)
		w.start(cortex.Config{Decider: simple(asks)})
		w.say("m", "alpha: something")
		if err := s.Erase(t.Context(), "", theContext); err != nil {
			t.Fatal(err)
		}
		err := w.bus.Publish(t.Context(), transport.Control("", transport.Cortex), &transport.Event{
			ID: "forget", Time: time.Now(), From: "user", ContextID: theContext, Payload: &transport.Forget{},
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if o, times := s.outlined(); times > 0 {
			t.Errorf("%d outlines are put, the last %+v, want none", times, o)
		}
	})
}

// TestManyOutlines checks that outlines beyond maxOutlines are made from the logs.
func TestManyOutlines(t *testing.T) {
	const conversations = 4096 + 10
	synctest.Test(t, func(t *testing.T) {
		w, s := outliningWorld(t, nil)
		w.start(cortex.Config{Decider: simple(asks)})
		pass(time.Minute)
		for i := range conversations {
			e := userEvent(fmt.Sprint("m", i), "hello")
			e.ContextID = fmt.Sprint("many-", i)
			if err := w.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute + 10*time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.kept); n != conversations {
			t.Errorf("%d conversations have outlines, want %d", n, conversations)
		}
		for id, o := range s.kept {
			if o.Entries != 1 || o.Updated.IsZero() || o.Version == 0 {
				t.Fatalf("the outline of %s is %+v", id, o)
			}
		}
	})
}
