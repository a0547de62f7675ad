package erase_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/agents"
	"github.com/cortex-orchestrator/cortex/cortex"
	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/memstore"
	"github.com/cortex-orchestrator/cortex/cortex/router"
	"github.com/cortex-orchestrator/cortex/internal/erase"
	"github.com/cortex-orchestrator/cortex/prompt"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/memory"
)

// shelf is a store and a transport with files.
type shelf struct {
	*memstore.Store
	t       *testing.T
	bus     *memory.Bus
	loads   map[string]int  // of logs, by conversation
	damaged map[string]bool // conversations with a damaged log
}

func newShelf(t *testing.T) *shelf {
	s := &shelf{Store: memstore.New(), t: t, bus: memory.New(nil), damaged: map[string]bool{}, loads: map[string]int{}}
	t.Cleanup(func() { s.bus.Close() })
	return s
}

func (s *shelf) Load(ctx context.Context, tenant, contextID string, after conversation.Version) iter.Seq2[*conversation.Entry, error] {
	s.loads[contextID]++
	if s.damaged[contextID] {
		return func(yield func(*conversation.Entry, error) bool) { yield(nil, conversation.ErrDamaged) }
	}
	return s.Store.Load(ctx, tenant, contextID, after)
}

// sweeper returns the Orphans of a process that starts now.
func (s *shelf) sweeper() *erase.Orphans { return &erase.Orphans{Store: s, Bus: s.bus} }

func (s *shelf) put(contextID, from string) transport.FileRef {
	s.t.Helper()
	ref, err := transport.PutFile(s.t.Context(), s.bus, "", contextID, from, strings.NewReader("words"), 10)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// said is a message that brings files.
func said(contextID string, refs ...transport.FileRef) *transport.Event {
	m := &a2a.Message{ID: "m", ContextID: contextID, Role: a2a.MessageRoleUser}
	for _, ref := range refs {
		m.Parts = append(m.Parts, ref.Part("a.txt", "text/plain"))
	}
	return &transport.Event{ID: "m", From: "user", ContextID: contextID, Payload: m}
}

// log appends an entry caused by e to its conversation's log.
func (s *shelf) log(e *transport.Event) {
	s.t.Helper()
	if _, err := s.Append(s.t.Context(), "", e.ContextID, 0, &conversation.Entry{Seq: 1, Cause: e}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) sweep(f *erase.Orphans) []erase.Loose {
	s.t.Helper()
	removed, err := f.Sweep(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return removed
}

// there checks which files are stored.
func (s *shelf) there(when string, want map[string]transport.FileRef, gone ...string) {
	s.t.Helper()
	left := map[string]bool{}
	for name, ref := range want {
		if _, err := s.bus.Chunk(s.t.Context(), ref.Object, 0); err == nil {
			left[name] = true
		}
	}
	all := map[string]bool{}
	for name := range want {
		all[name] = true
	}
	for _, name := range gone {
		delete(all, name)
	}
	if d := cmp.Diff(all, left); d != "" {
		s.t.Errorf("%s, what there is differs (-want +got):\n%s", when, d)
	}
}

// TestOrphans checks that a file without a reference is removed some minutes after its sender has last stored anything, and no other file: none
// that the log, a waiting or delayed event or a dead letter refers to, and none of a conversation that cannot be read. A log is read once for
// the files that it refers to.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		f := s.sweeper()
		s.sweep(f)
		files := map[string]transport.FileRef{
			"said": s.put("c", "user"), "lost": s.put("c", "user:ada"), "nowhere": s.put("unsaid", "agent"), "waits": s.put("w", "user"),
			"late": s.put("l", "user"), "dead": s.put("d", "user"), "damaged": s.put("x", "user"),
		}
		s.log(said("c", files["said"]))
		s.damaged["x"] = true
		s.sweep(f)
		inbox := transport.Inbox("", transport.Cortex)
		late := said("l", files["late"])
		late.DeliverAt = time.Now().Add(100 * 24 * time.Hour)
		dead := said("d", files["dead"])
		sub, err := s.bus.Subscribe(t.Context(), inbox, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			done <- sub.Serve(t.Context(), func(context.Context, *transport.Event) error { return transport.Permanent(errors.New("no")) })
		}()
		for _, e := range []*transport.Event{dead, late} {
			if err := s.bus.Publish(t.Context(), inbox, e); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		sub.Close()
		<-done
		if err := s.bus.Publish(t.Context(), inbox, said("w", files["waits"])); err != nil {
			t.Fatal(err)
		}

		for range 2 {
			<-time.After(7 * time.Minute)
			s.sweep(f)
		}
		s.there("after 14 minutes", files)
		<-time.After(2 * time.Minute)
		want := []erase.Loose{{From: "agent", Files: 1, Bytes: 21}, {From: "user:ada", Files: 1, Bytes: 21}}
		if d := cmp.Diff(want, s.sweep(f)); d != "" {
			t.Errorf("what was removed differs (-want +got):\n%s", d)
		}
		s.there("after 16 minutes", files, "lost", "nowhere")
		before := s.loads["c"]
		for range 10 {
			<-time.After(24 * time.Hour)
			s.sweep(f)
		}
		if n := s.loads["c"]; n != before {
			t.Errorf("a log that speaks of all files which are left is read %d times more", n-before)
		}
		s.there("after days", files, "lost", "nowhere")
		if d := cmp.Diff([]erase.Loose{{From: "user", Files: 3, Bytes: 63}}, f.Left()); d != "" {
			t.Errorf("what is left, though no log speaks of it, differs (-want +got):\n%s", d)
		}

		if err := s.bus.Withdraw(t.Context(), inbox, "w", "user", "m"); err != nil {
			t.Fatal(err)
		}
		<-time.After(16 * time.Minute)
		s.sweep(f)
		s.there("when nothing waits any more", files, "lost", "nowhere", "waits")
	})
}

// TestOrphansOfUploads stores files slowly: the first stays until the last is stored, and all are removed when no message follows.
func TestOrphansOfUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		f := s.sweeper()
		s.sweep(f)
		files := map[string]transport.FileRef{"first": s.put("c", "user"), "second": s.put("c", "user")}
		later := files["second"].Object
		for n := range 20 {
			<-time.After(10 * time.Minute)
			if err := s.bus.PutChunk(t.Context(), later, n+1, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			s.sweep(f)
			if n == 9 { // a process that starts meanwhile
				f = s.sweeper()
				s.sweep(f)
			}
		}
		s.there("while more comes", files)
		<-time.After(16 * time.Minute)
		s.sweep(f)
		s.there("when nothing more comes", files, "first", "second")
	})
}

// TestOrphansAtStart starts a process after others have left files: files whose message may still be waiting stay for some minutes, and older ones are
// removed at once, so that a process that is killed again and again removes them as well.
func TestOrphansAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		files := map[string]transport.FileRef{"old": s.put("old", "user")}
		<-time.After(50 * time.Minute)
		files["new"] = s.put("new", "user")
		<-time.After(30 * time.Minute)
		files["said"] = s.put("said", "user")
		f := s.sweeper()
		s.sweep(f)
		s.there("at the start", files, "old")
		<-time.After(5 * time.Minute)
		s.log(said("said", files["said"])) // the message waited for a Cortex
		s.sweep(f)
		<-time.After(11 * time.Minute)
		s.sweep(f)
		s.there("16 minutes later", files, "old", "new")
		s.sweep(s.sweeper())
		s.there("at another start", files, "old", "new")
	})
}

// crowd is a transport where what waits in a conversation refers to more files than are noted.
type crowd struct {
	*memory.Bus
	in string // conversation; "": none
}

func (c *crowd) Awaited(ctx context.Context, tenant, contextID string) (map[transport.Object]bool, error) {
	if contextID == c.in {
		return nil, fmt.Errorf("%w: too many", transport.ErrTooLarge)
	}
	return c.Bus.Awaited(ctx, tenant, contextID)
}

// TestOrphansOfMany has what waits in one conversation refer to more files than are noted: its files stay until that is less, and those of others do not.
func TestOrphansOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		files := map[string]transport.FileRef{"a": s.put("a", "user"), "b": s.put("b", "user")}
		bus := &crowd{Bus: s.bus, in: "a"}
		f := &erase.Orphans{Store: s, Bus: bus}
		s.sweep(f)
		<-time.After(16 * time.Minute)
		s.sweep(f)
		s.there("while too many wait", files, "b")
		bus.in = ""
		<-time.After(16 * time.Minute)
		s.sweep(f)
		s.there("later", files, "a", "b")
	})
}

// TestOrphansOfTasks has agents store files early in a long task: they stay while it lasts, and then only if the result refers to them.
func TestOrphansOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		index := router.New(nil)
		var list []prompt.Agent
		large := bytes.Repeat([]byte("x"), 2*transport.MaxInlineFile)
		for _, id := range []string{"bad", "good"} { // sorted, as Config.Agents wants it
			card, _, _ := agents.Lookup("echo")
			card.Name = id
			list = append(list, prompt.Agent{ID: id, Card: card})
			index.Put(id, card)
			work := func(ctx context.Context, task *agents.Task) (*agents.Result, error) {
				err := task.AddFile(ctx, "a.bin", "", bytes.NewReader(large))
				if id == "bad" { // as if it had been killed once
					s.put(task.ContextID, id)
				}
				if err != nil {
					return nil, err
				}
				for range 60 {
					<-time.After(time.Minute)
					task.Progress("at work")
				}
				return agents.Text("done"), nil
			}
			go agents.Serve(t.Context(), s.bus, card, agents.Handler(work), nil) //nolint:errcheck // it ends with the test
		}
		orch, err := cortex.New(cortex.Config{
			Transport: s.bus, Store: s.Store, Router: index, Decider: toEcho{}, Agents: func(string) []prompt.Agent { return list },
			TaskTimeout: 2 * time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		go orch.Run(t.Context()) //nolint:errcheck // it ends with the test
		synctest.Wait()
		for _, to := range []string{"good", "bad"} {
			e := &transport.Event{ID: "m", Time: time.Now(), From: "user", ContextID: to, Payload: &a2a.Message{
				ID: "m", ContextID: to, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(to + ": work")},
			}}
			if err := s.bus.Publish(t.Context(), transport.Inbox("", transport.Cortex), e); err != nil {
				t.Fatal(err)
			}
		}
		count := func() map[string]int {
			n := map[string]int{}
			for o, err := range s.bus.Objects(t.Context(), "") {
				if err != nil {
					t.Fatal(err)
				}
				n[o.From]++
			}
			return n
		}
		f := s.sweeper()
		for range 11 {
			<-time.After(5 * time.Minute)
			s.sweep(f)
		}
		if d := cmp.Diff(map[string]int{"good": 1, "bad": 2}, count()); d != "" {
			t.Errorf("after 55 minutes of work, files differ (-want +got):\n%s", d)
		}
		for range 30 {
			<-time.After(5 * time.Minute)
			s.sweep(f)
		}
		if d := cmp.Diff(map[string]int{"good": 1, "bad": 1}, count()); d != "" {
			t.Errorf("after the work, files differ (-want +got):\n%s", d)
		}
	})
}
