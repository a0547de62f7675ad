package httpserver_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cortex-orchestrator/cortex/internal/httpserver"
)

// TestRoom checks that a sender has a part of a Room, that one who asks for more waits for what is given back, but not for ever, and that a request with a
// small body needs none.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := httpserver.NewRoom(10, 6)
		began := time.Now()
		if !m.Take(t.Context(), "ada", 6) || m.Take(t.Context(), "ada", 1) {
			t.Error("a sender does not have a part")
		}
		if took := time.Since(began); took < 5*time.Second || took > 30*time.Second {
			t.Errorf("who finds no room waits for %v", took)
		}
		if gone, cancel := context.WithCancel(t.Context()); cancel != nil {
			cancel()
			if m.Take(gone, "bob", 5) || !m.Take(gone, "bob", 4) || m.Take(gone, "eve", 1) {
				t.Error("there is room for more than all of it")
			}
		}
		go func() {
			time.Sleep(time.Second)
			m.Give("ada", 6)
		}()
		if began = time.Now(); !m.Take(t.Context(), "ada", 5) || time.Since(began) != time.Second {
			t.Errorf("what is given back is taken after %v", time.Since(began))
		}
	})
}

// TestRoomTurns checks that what is given back goes to who has least, also when another one has many requests that wait, and that a large one is not kept waiting
// by small ones.
func TestRoomTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := httpserver.NewRoom(4, 3)
		took := make(chan string, 200)
		want := func(who string, n int64) {
			go func() {
				if m.Take(t.Context(), who, n) {
					took <- who
				}
			}()
			synctest.Wait()
		}
		next := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-took:
				if got != want {
					t.Errorf("room goes to %s, want %s", got, want)
				}
			default:
				t.Errorf("room goes to nobody, want %s", want)
			}
		}
		for _, who := range []string{"ada", "ada", "ada", "eve"} {
			want(who, 1)
			next(who)
		}
		for range 100 {
			want("ada", 1)
		}
		want("bob", 2)
		want("eve", 1)
		m.Give("ada", 1)
		synctest.Wait()
		if len(took) > 0 {
			t.Errorf("%s has the room for which bob waits", <-took)
		}
		m.Give("ada", 1)
		next("bob")
		m.Give("bob", 1)
		next("ada")
		m.Give("bob", 1)
		next("eve")
	})
}

// TestRoomForBodies checks that a Room has what large bodies take while they arrive, and gives it back.
func TestRoomForBodies(t *testing.T) {
	m := httpserver.NewRoom(1<<20, 1<<20)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		size, used int64
		chunked    bool
		ok, fails  bool
	}{
		{size: 1 << 20, ok: true},
		{size: 1 << 20, used: 1, ok: false},
		{size: 10, used: 1 << 20, ok: true},
		{size: 10, used: 1, chunked: true, ok: false},
		{size: 10, chunked: true, ok: true},
		{size: 1<<20 + 1, chunked: true, ok: true, fails: true},
	} {
		m.Take(gone, "ada", c.used)
		r := httptest.NewRequestWithContext(gone, http.MethodPost, "/", bytes.NewReader(make([]byte, c.size)))
		if c.chunked {
			r.ContentLength = -1
		}
		b, ok, err := m.ReadBody(nil, r, "ada", 1<<20)
		if ok != c.ok || (err != nil) != c.fails || ok && err == nil && int64(len(b)) != c.size {
			t.Errorf("%+v: %d bytes, %v, %v", c, len(b), ok, err)
		}
		m.Give("ada", c.used)
	}
}
