package transporttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
)

func keepsFiles(_ Node, tr transport.Transport) bool { _, ok := tr.(transport.Files); return ok }

func eraseFiles(_ Node, tr transport.Transport) bool {
	_, keeps := tr.(transport.FileKeeper)
	_, erases := tr.(transport.Eraser)
	return keeps && erases
}

// putFile stores b as a file.
func (e *env) putFile(tr transport.Transport, tenant, contextID, from string, b []byte) transport.FileRef {
	e.Helper()
	ref, err := transport.PutFile(context.Background(), tr.(transport.Files), tenant, contextID, from, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		e.Fatalf("PutFile in %q of %q = %v, want nil", contextID, tenant, err)
	}
	return ref
}

// readFile returns the content of a file.
func (e *env) readFile(tr transport.Transport, ref transport.FileRef) ([]byte, error) {
	return transport.ReadPart(context.Background(), tr.(transport.Files), ref.Tenant, ref.Part("", ""), 1<<30)
}

// holds checks that a file has the stored content.
func (e *env) holds(tr transport.Transport, ref transport.FileRef, want []byte) {
	e.Helper()
	if got, err := e.readFile(tr, ref); err != nil || !bytes.Equal(got, want) {
		e.Errorf("the file of %d bytes in %q of %q is %d bytes, %v", len(want), ref.ContextID, ref.Tenant, len(got), err)
	}
}

func pattern(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef\x00\xff"), n/18+1)[:n] }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

var fileCases = []testCase{
	{name: "files", needs: keepsFiles, run: func(e *env) {
		other := e.dial()
		for _, n := range []int{0, 1, transport.FileChunk, 2*transport.FileChunk + 1} {
			e.holds(other, e.putFile(e.tr, "", "c", "user", pattern(n)), pattern(n))
		}
		for _, id := range []string{"a.b", "*", ">", "c d=/é", strings.Repeat("x", transport.MaxID)} {
			if transport.CheckID(id) != nil {
				id = strings.ReplaceAll(id, " ", "_")
			}
			e.holds(other, e.putFile(e.tr, "acme", id, id, []byte(id)), []byte(id))
		}
		ref := e.putFile(e.tr, "acme", "c", "user", []byte("words"))
		for name, change := range map[string]func(*transport.Object){
			"tenant":       func(o *transport.Object) { o.Tenant = "" },
			"conversation": func(o *transport.Object) { o.ContextID = "d" },
			"sender":       func(o *transport.Object) { o.From = "agent" },
			"id":           func(o *transport.Object) { o.ID = "1" },
		} {
			o := ref.Object
			change(&o)
			if b, err := e.tr.(transport.Files).Chunk(context.Background(), o, 0); !errors.Is(err, transport.ErrNotFound) {
				e.Errorf("Chunk with another %s = %q, %v, want ErrNotFound", name, b, err)
			}
		}
	}},
	{name: "a file that is stopped", needs: keepsFiles, run: func(e *env) {
		ctx, f := context.Background(), e.tr.(transport.Files)
		broken := errors.New("broken")
		half := io.MultiReader(bytes.NewReader(pattern(2*transport.FileChunk+1)), iotest.ErrReader(broken))
		e.wantIs(errOf(transport.PutFile(ctx, f, "", "c", "user", half, 1<<30)), broken, "PutFile of what cannot be read")
		ended, end := context.WithCancel(ctx)
		stops := readerFunc(func(b []byte) (int, error) { end(); return len(b), nil })
		whole := io.MultiReader(bytes.NewReader(pattern(2*transport.FileChunk)), stops)
		e.wantIs(errOf(transport.PutFile(ended, f, "", "c", "user", whole, 1<<30)), context.Canceled, "PutFile that is stopped")
		keeper, ok := e.tr.(transport.FileKeeper)
		if !ok {
			return
		}
		for o, err := range keeper.Objects(ctx, "") {
			e.Errorf("PutFile that failed has left %v, %v, want nothing", o, err)
		}
	}},
	{name: "chunks of files", needs: keepsFiles, run: func(e *env) {
		ctx, f := context.Background(), e.tr.(transport.Files)
		o := transport.Object{ContextID: "c", From: "user", ID: "1"}
		b := pattern(100)
		for range 2 { // storing it again is harmless
			if err := f.PutChunk(ctx, o, 3, b); err != nil {
				e.Fatalf("PutChunk = %v, want nil", err)
			}
		}
		clear(b) // PutChunk must not retain it
		got, err := f.Chunk(ctx, o, 3)
		if d := cmp.Diff(pattern(100), got); err != nil || d != "" {
			e.Errorf("Chunk = %v, differs from what was stored (-want +got):\n%s", err, d)
		}
		clear(got) // Chunk must return a copy
		if got, err := f.Chunk(ctx, o, 3); err != nil || !bytes.Equal(got, pattern(100)) {
			e.Errorf("Chunk again = %d bytes, %v, want what was stored", len(got), err)
		}
		for _, n := range []int{0, 2, 4, -1} {
			e.wantIs(errOf(f.Chunk(ctx, o, n)), transport.ErrNotFound, "Chunk %d", n)
		}
		e.wantIs(f.PutChunk(ctx, o, 0, pattern(transport.FileChunk+100)), transport.ErrTooLarge, "PutChunk of too much")
		for name, c := range map[string]struct {
			o transport.Object
			n int
		}{"no conversation": {transport.Object{From: "user", ID: "1"}, 0}, "no sender": {transport.Object{ContextID: "c", ID: "1"}, 0}, "-1": {o, -1}} {
			e.wantIs(f.PutChunk(ctx, c.o, c.n, pattern(100)), transport.ErrInvalid, "PutChunk with %s", name)
		}
		ended, end := context.WithCancel(ctx)
		end()
		e.wantIs(f.PutChunk(ended, o, 0, pattern(100)), context.Canceled, "PutChunk whose context has ended")
		e.wantIs(errOf(f.Chunk(ended, o, 3)), context.Canceled, "Chunk whose context has ended")
		_ = e.tr.Close()
		e.wantIs(f.PutChunk(ctx, o, 0, pattern(100)), transport.ErrClosed, "PutChunk after Close")
		e.wantIs(errOf(f.Chunk(ctx, o, 3)), transport.ErrClosed, "Chunk after Close")
	}},
	{name: "files go with their conversation", needs: eraseFiles, run: func(e *env) {
		gone, alike := "c.1", "c"
		first, second := e.putFile(e.tr, "acme", gone, "user", pattern(300<<10)), e.putFile(e.tr, "acme", gone, "agent", pattern(10))
		stays, defaults := e.putFile(e.tr, "acme", alike, "user", pattern(20)), e.putFile(e.tr, "", gone, "user", pattern(30))
		for range 2 {
			e.erase(e.tr.(transport.Eraser), "acme", gone)
		}
		for _, ref := range []transport.FileRef{first, second} {
			if b, err := e.readFile(e.tr, ref); !errors.Is(err, transport.ErrFileGone) {
				e.Errorf("a file of a conversation that was erased is %d bytes, %v, want ErrFileGone", len(b), err)
			}
		}
		e.holds(e.tr, stays, pattern(20))
		e.holds(e.tr, defaults, pattern(30))
		e.holds(e.tr, e.putFile(e.tr, "acme", gone, "user", pattern(40)), pattern(40)) // stored anew
	}},
	{name: "files that are looked after", needs: eraseFiles, run: func(e *env) {
		ctx, keeper := context.Background(), e.tr.(transport.FileKeeper)
		large, small := e.putFile(e.tr, "acme", "c", "user", pattern(2*transport.FileChunk)), e.putFile(e.tr, "acme", "d.e", "user:ann", pattern(1))
		e.putFile(e.tr, "", "c", "user", pattern(1))
		list := func() map[transport.Object]bool {
			all := map[transport.Object]bool{}
			for o, err := range keeper.Objects(ctx, "acme") {
				if err != nil || all[o] {
					e.Fatalf("Objects yields %+v, %v", o, err)
				}
				all[o] = true
				size := map[string]int64{large.ID: 2 * transport.FileChunk, small.ID: 1}[o.ID]
				if at, n, err := keeper.Stored(ctx, o); err != nil || time.Since(at).Abs() > time.Hour || n < size || n > size+100 {
					e.Errorf("Stored = %v, %d, %v, want a moment ago, and %d bytes or a little more", at, n, err, size)
				}
			}
			return all
		}
		if d := cmp.Diff(map[transport.Object]bool{large.Object: true, small.Object: true}, list()); d != "" {
			e.Errorf("the files of a tenant differ (-want +got):\n%s", d)
		}
		for range keeper.Objects(ctx, "acme") {
			break
		}
		for range 2 {
			e.wantIs(keeper.RemoveObject(ctx, large.Object), nil, "RemoveObject")
		}
		if d := cmp.Diff(map[transport.Object]bool{small.Object: true}, list()); d != "" {
			e.Errorf("the files that are left differ (-want +got):\n%s", d)
		}
		if at, _, err := keeper.Stored(ctx, large.Object); !errors.Is(err, transport.ErrNotFound) {
			e.Errorf("Stored of a file that was removed = %v, %v, want ErrNotFound", at, err)
		}
		if b, err := e.readFile(e.tr, large); !errors.Is(err, transport.ErrFileGone) {
			e.Errorf("a file that was removed is %d bytes, %v, want ErrFileGone", len(b), err)
		}
	}},
	{name: "files of which something speaks", needs: func(n Node, tr transport.Transport) bool { return eraseFiles(n, tr) && keepsDead(n, tr) }, run: func(e *env) {
		keeper := e.tr.(transport.FileKeeper)
		brings := func(ev *transport.Event, ref transport.FileRef) *transport.Event {
			m := ev.Payload.(*a2a.Message)
			m.Parts = append(m.Parts, ref.Part("a.txt", ""))
			return ev
		}
		put := func(contextID string) transport.FileRef {
			return e.putFile(e.tr, "", contextID, "user:ann", pattern(1))
		}
		waits, late, silent, dead, other := put("c.1"), put("c.1"), put("c.1"), put("c.1"), put("c")
		named := func(contextID string) map[transport.Object]bool {
			e.Helper()
			all, err := keeper.Awaited(context.Background(), "", contextID)
			if err != nil {
				e.Fatalf("Awaited = %v, want nil", err)
			}
			return all
		}
		e.publish(e.tr, worker, brings(e.delayed(worker, "c.1", "late", time.Hour), late))
		e.publish(e.tr, worker, brings(e.message(worker, "c.1", "dead"), dead))
		e.publish(e.tr, worker, brings(e.message(worker, "c", "other"), other))
		d := e.desk(e.dial(), worker, nil)
		first, second := d.next(), d.next()
		if first.ContextID == "c" {
			first, second = second, first
		}
		if d := cmp.Diff(map[transport.Object]bool{other.Object: true}, named("c")); d != "" {
			e.Errorf("the files of which what is being handled speaks differ (-want +got):\n%s", d)
		}
		second.done(nil)
		first.done(transport.Permanent(errTry))
		e.publish(e.tr, worker, brings(e.message(worker, "c.1", "waits"), waits))
		e.eventually("one event is a dead letter", func() bool { return len(e.dead(e.tr, "")) == 1 })
		if d := cmp.Diff(map[transport.Object]bool{waits.Object: true, late.Object: true, dead.Object: true}, named("c.1")); d != "" {
			e.Errorf("the files of which events speak differ, without %s (-want +got):\n%s", silent.ID, d)
		}
		e.eventually("nothing speaks any more of what was handled", func() bool { return len(named("c")) == 0 })
	}},
	{
		name: "restart keeps files", needs: func(n Node, tr transport.Transport) bool { return restarts(n, tr) && keepsFiles(n, tr) },
		run: func(e *env) {
			ref := e.putFile(e.tr, "", "c", "user", pattern(600<<10))
			e.restart()
			e.holds(e.tr, ref, pattern(600<<10))
		},
	},
}
