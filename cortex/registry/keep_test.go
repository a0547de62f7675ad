package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/cortex/registry"
	"github.com/cortex-orchestrator/cortex/transport"
)

// shelf is a Keeper in memory.
type shelf struct {
	mu      sync.Mutex
	notes   map[string]string
	writes  int
	err     error         // of every write
	loadErr error         // after all that Load yields
	held    chan struct{} // unless nil, writes wait for an element of it
}

func newShelf() *shelf { return &shelf{notes: map[string]string{}} }

func (s *shelf) Load(context.Context) iter.Seq2[registry.AgentNote, error] {
	return func(yield func(registry.AgentNote, error) bool) {
		s.mu.Lock()
		notes := maps.Clone(s.notes)
		s.mu.Unlock()
		for id, data := range notes {
			if !yield(registry.AgentNote{ID: id, Data: []byte(data)}, nil) {
				return
			}
		}
		if s.loadErr != nil {
			yield(registry.AgentNote{}, s.loadErr)
		}
	}
}

func (s *shelf) Save(ctx context.Context, id string, data []byte) error {
	return s.write(ctx, func() { s.notes[id] = string(data) })
}

func (s *shelf) Delete(ctx context.Context, id string) error {
	return s.write(ctx, func() { delete(s.notes, id) })
}

func (s *shelf) write(ctx context.Context, f func()) error {
	if s.held != nil {
		select {
		case <-s.held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.err != nil {
		return s.err
	}
	f()
	return nil
}

func (s *shelf) count() (notes, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notes), s.writes
}

// life is a Run of a registry, within a bubble.
type life struct {
	*registry.Registry
	t    *testing.T
	tr   *script
	log  bytes.Buffer
	sent int
	stop func()

	mu     sync.Mutex
	events []string
}

// live begins a Run and delivers the retained cards.
func live(t *testing.T, cfg registry.Config, retained ...*transport.Event) *life {
	l := &life{t: t, tr: &script{events: make(chan *transport.Event), closed: make(chan struct{})}}
	cfg.Tenant, cfg.Logger = "t", slog.New(slog.NewTextHandler(&l.log, nil))
	cfg.OnEvent = func(e registry.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, text(e))
	}
	l.Registry = registry.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx, l.tr) }()
	l.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
	for _, e := range retained {
		l.tr.events <- e
	}
	l.tr.events <- &transport.Event{Tenant: "t", Payload: &transport.Synced{}}
	synctest.Wait()
	return l
}

func (l *life) publish(instance string, c transport.Card) *transport.Event {
	c.AgentID, c.Instance, _ = strings.Cut(instance, "/")
	if c.Gone == "" && c.Card == nil {
		c.Card = agentCard(c.AgentID, "a")
	}
	l.sent++
	e := cardEvent(&c)
	e.ID, e.Time = fmt.Sprint("e", l.sent), time.Now()
	l.tr.events <- e
	synctest.Wait()
	return e
}

func (l *life) beat(instance string) *transport.Event {
	return l.publish(instance, transport.Card{TTL: ttl, Heartbeat: ttl / 3})
}

func (l *life) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (l *life) want(events ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := cmp.Diff(events, l.events); d != "" {
		l.t.Errorf("events differ (-want +got):\n%s", d)
	}
	l.events = nil
}

// TestRestart restarts Cortex within and after the lifetime of cards, with agents that are alive and agents that have died in the meantime.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		away   time.Duration
		retain bool // the transport still has the cards
	}{{"within the lease", 20 * time.Second, true}, {"beyond the lease", time.Hour, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				l := live(t, registry.Config{Keep: s})
				alive, dead := l.beat("alive/1"), l.beat("dead/1")
				l.beat("leaves/1")
				constant := l.publish("constant/1", transport.Card{})
				l.publish("vanished/1", transport.Card{})
				l.publish("left/1", transport.Card{Gone: transport.GoneLeft})
				before, _ := l.Snapshot().Get("alive")
				l.stop()

				began := time.Now()
				<-time.After(tt.away)
				retained := []*transport.Event{constant}
				if tt.retain {
					retained = append(retained, alive, dead)
				}
				l = live(t, registry.Config{Keep: s}, retained...)
				l.want("registered alive/", "registered constant/", "registered dead/", "registered leaves/", "registered vanished/",
					"deregistered vanished/1 requested") // only a goodbye removes a card without TTL
				if r, ok := l.Snapshot().Get("alive"); !ok || !r.Routable() || !r.RegisteredAt.Equal(before.RegisteredAt) || r.Instances[0].LastSeen.After(began) {
					t.Errorf("after the restart alive is %+v, want it as it was", r)
				}
				l.publish("dead/1", transport.Card{Gone: transport.GoneExpired})
				l.publish("leaves/1", transport.Card{Gone: transport.GoneLeft})
				l.want("deregistered leaves/1 requested")
				l.pass(14 * time.Second)
				l.want()
				if r, _ := l.Snapshot().Get("dead"); !r.Routable() {
					t.Error("an agent that may return gets no work")
				}
				l.pass(46 * time.Second)
				late := []string{"draining dead/1"}
				if !tt.retain {
					late = []string{"draining alive/1", "draining dead/1"}
				}
				l.want(late...)
				if r, ok := l.Snapshot().Get("dead"); !ok || r.Routable() {
					t.Errorf("an agent that does not return is %+v, want that it gets no work, but may have some", r)
				}
				l.beat("alive/1")
				if r, _ := l.Snapshot().Get("alive"); !r.Routable() {
					t.Error("an agent that has returned gets no work")
				}
				if !tt.retain {
					l.want("updated alive/1")
				}
				l.pass(29 * time.Second)
				l.want()
				l.pass(6 * time.Second)
				l.want("deregistered dead/1 missed-heartbeats")
				if notes, _ := s.count(); notes != 2 {
					t.Errorf("%d notes are kept, want those of alive and constant", notes)
				}
				l.stop()
			})
		})
	}
}

// TestUpdatedWhileAway checks that a retained card takes precedence over a stored one.
func TestUpdatedWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		l := live(t, registry.Config{Keep: s})
		l.beat("echo/1")
		l.publish("echo/2", transport.Card{TTL: ttl, Draining: true})
		l.stop()
		changed := agentCard("echo", "b")
		changed.Skills[0].ID = "other"
		l = live(t, registry.Config{Keep: s},
			cardEvent(&transport.Card{AgentID: "echo", Instance: "1", Card: changed, TTL: ttl}),
			cardEvent(&transport.Card{AgentID: "new", Instance: "1", Card: agentCard("new", ""), TTL: ttl}))
		l.want("registered echo/", "updated echo/1", "capabilities-changed echo/1 +other -s", "registered new/1")
		r, _ := l.Snapshot().Get("echo")
		if len(r.Instances) != 2 || r.Instances[1].State != registry.StateDraining || r.Card.Description != "b" {
			t.Errorf("record = %+v, want both instances, one of them draining, and the new card", r)
		}
		l.stop()
	})
}

func TestBadNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		l := live(t, registry.Config{Keep: s})
		l.beat("good/1")
		l.beat("known/1")
		l.stop()
		good := s.notes["good"]
		edit := func(f func(note map[string]any)) string {
			var note map[string]any
			if err := json.Unmarshal([]byte(good), &note); err != nil {
				t.Fatal(err)
			}
			f(note)
			text, err := json.Marshal(note)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		former := edit(func(n map[string]any) { n["instances"] = []any{} }) // of an agent that was well known
		bad := map[string]string{
			"empty": "", "no-json": "{", "list": "[]", "cortex": good, "bad id": good,
			"no-card":        edit(func(n map[string]any) { n["card"] = nil }),
			"odd-card":       edit(func(n map[string]any) { n["card"] = "card" }),
			"big-card":       edit(func(n map[string]any) { n["card"] = map[string]any{"name": strings.Repeat("x", transport.MaxCard)} }),
			"odd-instance":   edit(func(n map[string]any) { n["instances"] = []any{map[string]any{"id": "a b"}} }),
			"many-instances": edit(func(n map[string]any) { n["instances"] = make([]any, 101) }),
			"bad-ttl":        edit(func(n map[string]any) { n["instances"] = []any{map[string]any{"id": "1", "ttl": -1}} }),
			"bad-beat":       edit(func(n map[string]any) { n["instances"] = []any{map[string]any{"id": "1", "heartbeat": 1 << 62}} }),
			"bad-time":       edit(func(n map[string]any) { n["lastSeen"] = "yesterday" }),
		}
		maps.Copy(s.notes, bad)
		s.notes["former"], s.notes["null"] = former, "null" // these are dropped without a word
		l = live(t, registry.Config{Keep: s, WellKnown: []registry.WellKnown{{ID: "known", Card: agentCard("known", "listed")}}})
		l.want("registered good/", "registered known/")
		if got := strings.Count(l.log.String(), "cannot be used"); got != len(bad) {
			t.Errorf("%d notes were reported, want %d:\n%s", got, len(bad), &l.log)
		}
		l.stop()
		delete(s.notes, "bad id") // which is an invalid name
		if !strings.Contains(s.notes["known"], `"instances":null`) {
			t.Errorf("the note of a well-known agent is %s", s.notes["known"])
		}
		delete(s.notes, "known")
		if d := cmp.Diff(map[string]string{"good": good}, s.notes); d != "" {
			t.Errorf("notes afterwards differ (-want +got):\n%s", d)
		}

		s.loadErr = errors.New("store is away")
		l = live(t, registry.Config{Keep: s})
		l.want("registered good/")
		if !strings.Contains(l.log.String(), "store is away") {
			t.Errorf("log %q, want why not all are remembered", &l.log)
		}
		l.stop()
	})
}

// TestKeepWrites checks when notes are written: not for heartbeats, and once for several changes in short time.
func TestKeepWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		wants := func(what string, notes, writes int) {
			t.Helper()
			if n, w := s.count(); n != notes || w != writes {
				t.Errorf("%s: %d notes after %d writes, want %d after %d", what, n, w, notes, writes)
			}
		}
		l := live(t, registry.Config{Keep: s, WellKnown: []registry.WellKnown{{ID: "known", Card: agentCard("known", "")}}})
		l.beat("echo/1")
		l.beat("known/1")
		wants("registered", 2, 2)
		for range 5 {
			l.pass(20 * time.Second)
			l.beat("echo/1")
		}
		wants("seen", 2, 3) // the known one is gone
		l.publish("echo/1", transport.Card{Card: agentCard("echo", "b"), TTL: ttl})
		wants("updated", 2, 4)

		s.held = make(chan struct{})
		l.beat("echo/2")
		for i := range 50 { // nobody is delayed
			l.publish("echo/1", transport.Card{Card: agentCard("echo", fmt.Sprint(i)), TTL: ttl})
		}
		close(s.held)
		synctest.Wait()
		wants("many updates", 2, 6)

		s.mu.Lock()
		s.err = errors.New("disk full")
		s.mu.Unlock()
		l.publish("echo/1", transport.Card{Gone: transport.GoneLeft})
		l.publish("echo/2", transport.Card{Gone: transport.GoneLeft})
		l.pass(20 * time.Second)
		if n := strings.Count(l.log.String(), "disk full"); n != 1 {
			t.Errorf("the log tells %d times that writing fails, want once:\n%s", n, &l.log)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		l.pass(5 * time.Second)
		if n, _ := s.count(); n != 1 {
			t.Errorf("%d notes are left after the disk has room again, want that of the well-known one", n)
		}
		l.stop()
	})
}

// TestKnownWasThere checks that Cortex remembers, also after a restart, when a well-known agent that does not run was there.
func TestKnownWasThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := registry.Config{Keep: newShelf(), WellKnown: []registry.WellKnown{{ID: "known", Card: agentCard("known", "")}}}
		l := live(t, cfg)
		if r, _ := l.Snapshot().Get("known"); !r.LastSeen.IsZero() || !r.RegisteredAt.IsZero() {
			t.Errorf("an agent that was never there was seen at %v", r.LastSeen)
		}
		began := time.Now()
		l.beat("known/1")
		l.pass(time.Second)
		l.beat("known/1")
		l.publish("known/1", transport.Card{Gone: transport.GoneLeft})
		l.stop()
		l = live(t, cfg)
		r, _ := l.Snapshot().Get("known")
		if r.State != registry.StateUnknown || !r.RegisteredAt.Equal(began) || !r.LastSeen.Equal(began.Add(time.Second)) {
			t.Errorf("%s, registered %v, seen %v; want unknown, %v, a second later", r.State, r.RegisteredAt, r.LastSeen, began)
		}
		l.stop()
	})
}

// TestKeepTells checks that a failure to store is logged at once, however many notes wait.
func TestKeepTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.held = make(chan struct{})
		l := live(t, registry.Config{Keep: s})
		for i := range 3 {
			l.beat(fmt.Sprint("echo", i, "/1"))
		}
		s.held <- struct{}{} // the first one was alone
		synctest.Wait()
		s.mu.Lock()
		s.err = errors.New("disk full")
		s.mu.Unlock()
		s.held <- struct{}{} // one of two
		synctest.Wait()
		if !strings.Contains(l.log.String(), "agent=echo1 err=\"disk full\"") {
			t.Errorf("the log does not tell that nothing is kept:\n%s", &l.log)
		}
		close(s.held)
		l.stop()
	})
}

// TestFlush checks that the latest changes are stored at the end, unless that takes too long.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		s.held = make(chan struct{})
		l := live(t, registry.Config{Keep: s})
		l.beat("echo/1")
		go func() { s.held <- struct{}{} }() // one write at the end
		synctest.Wait()
		l.beat("more/1")
		go func() {
			<-time.After(time.Second)
			close(s.held)
		}()
		l.stop()
		if n, _ := s.count(); n != 2 {
			t.Errorf("%d notes are kept, want both", n)
		}

		s.held = make(chan struct{}) // never continues
		l = live(t, registry.Config{Keep: s})
		l.beat("third/1")
		began := time.Now()
		l.stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the end took %v, want it soon although nothing can be kept", took)
		}
	})
}

func TestManyKept(t *testing.T) {
	const agents = 10_000
	s := newShelf()
	template := ""
	synctest.Test(t, func(t *testing.T) {
		l := live(t, registry.Config{Keep: s})
		l.beat("a/1")
		l.stop()
		template = s.notes["a"]
	})
	clear(s.notes)
	for i := range agents {
		s.notes[fmt.Sprint("a", i)] = strings.Replace(template, `"description":"a"`, fmt.Sprintf(`"description":"%d"`, i), 1)
	}
	synctest.Test(t, func(t *testing.T) {
		l := live(t, registry.Config{Keep: s})
		if n := len(l.Snapshot().Routable()); n != agents {
			t.Errorf("%d agents are there, want %d", n, agents)
		}
		l.stop()
	})
}

func BenchmarkRestore(b *testing.B) {
	s := newShelf()
	for i := range benchAgents {
		card, err := json.Marshal(agentCard(fmt.Sprint("a", i), "an agent of ordinary abilities"))
		if err != nil {
			b.Fatal(err)
		}
		s.notes[fmt.Sprint("a", i)] = fmt.Sprintf(`{"card":%s,"instances":[{"id":"1","ttl":90000000000,"heartbeat":30000000000}]}`, card)
	}
	for b.Loop() {
		tr := &script{events: make(chan *transport.Event, 1), closed: make(chan struct{})}
		tr.events <- &transport.Event{Tenant: "t", Payload: &transport.Synced{}}
		r := registry.New(registry.Config{Tenant: "t", Keep: s})
		ctx, cancel := context.WithCancel(b.Context())
		go func() {
			<-r.Synced()
			cancel()
		}()
		if err := r.Run(ctx, tr); err != nil || len(r.Snapshot().Agents()) != benchAgents {
			b.Fatal(err, len(r.Snapshot().Agents()))
		}
	}
}
