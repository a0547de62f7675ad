package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestTakeBackAtAnyGateway has a person and an agent store files and take them back while two processes serve the gateway, so that a request
// reaches another one than the request before. A file that nothing names is removed each time. One that a waiting event, or an entry of the
// log, names is never removed, neither by taking it back nor by a later chunk that is refused.
func TestTakeBackAtAnyGateway(t *testing.T) {
	w := newTown(t)
	other := w.dial(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := other.serveGateway(ctx, ""); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Bus{w.cortex, other} {
		b.maxFile = 2 * transport.FileChunk
	}
	const tries = 10
	for from, creds := range map[string]string{"user:ada": userCreds(t, w.dir, "", "ada"), "w.1": agentCreds(t, w.dir, "", "w.1")} {
		b := w.dial(t, &Options{Creds: creds})
		put := func(contextID string) transport.FileRef {
			t.Helper()
			ref, err := transport.PutFile(t.Context(), b, "", contextID, from, bytes.NewReader(make([]byte, 1000)), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			return ref
		}
		for n := range tries {
			if err := b.RemoveObject(t.Context(), put(from+"-"+strconv.Itoa(n)).Object); err != nil {
				t.Errorf("%s takes back a file that nothing names: %v, want nil", from, err)
			}
		}
		before := w.objects(t)
		if before > 0 {
			t.Errorf("%d files are left that %s took back, want none", before, from)
		}

		waits, logged := put("waits-"+from), put("logged-"+from)
		says := message(transport.Inbox("", "nobody"), waits.ContextID, "look")
		says.Payload.(*a2a.Message).Parts = append(says.Payload.(*a2a.Message).Parts, waits.Part("a.bin", ""))
		if err := w.cortex.Publish(t.Context(), transport.Inbox("", "nobody"), says); err != nil {
			t.Fatal(err)
		}
		w.log(t, logged.ContextID, "something else")
		w.log(t, logged.ContextID, logged.Part("a.bin", ""))
		for range tries {
			for _, ref := range []transport.FileRef{waits, logged} {
				if err := b.RemoveObject(t.Context(), ref.Object); !errors.Is(err, transport.ErrForbidden) {
					t.Errorf("%s takes back the file of %s, which is named: %v, want ErrForbidden", from, ref.ContextID, err)
				}
				if err := b.PutChunk(t.Context(), ref.Object, 2, make([]byte, 100)); !errors.Is(err, transport.ErrTooLarge) {
					t.Errorf("a chunk that is too many: %v, want ErrTooLarge", err)
				}
			}
		}
		if left := w.objects(t) - before; left != 2 {
			t.Errorf("%d of the files that are named are left, want 2", left)
		}
		for _, ref := range []transport.FileRef{waits, logged} {
			if err := w.cortex.Erase(t.Context(), "", ref.ContextID); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// log puts an entry into the log of a conversation.
func (w *town) log(t *testing.T, contextID string, entry any) {
	t.Helper()
	data, err := json.Marshal(entry)
	if err == nil {
		_, err = w.cortex.js.Publish(t.Context(), readStreams[logStream]+"_."+transport.Escape(contextID), data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyAwaited has a message that waits refer to more files than are noted.
func TestManyAwaited(t *testing.T) {
	w := newTown(t)
	says := message(transport.Inbox("", "nobody"), "c", "look")
	var all []any
	for n := range maxAwaited/2 + 1 {
		all = append(all, "cortex-file:c/a/"+strconv.Itoa(n))
	}
	m := says.Payload.(*a2a.Message)
	m.Parts = append(m.Parts, a2a.NewDataPart(all))
	if err := w.cortex.Publish(t.Context(), transport.Inbox("", "nobody"), says); err != nil {
		t.Fatal(err)
	}
	if named, err := w.cortex.Awaited(t.Context(), "", "c"); err != nil || len(named) != len(all) {
		t.Errorf("Awaited = %d files, %v", len(named), err)
	}
	for i := range all {
		all[i] = "cortex-file:c/b/" + strconv.Itoa(i)
	}
	says.ID += "b"
	if err := w.cortex.Publish(t.Context(), transport.Inbox("", "nobody"), says); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cortex.Awaited(t.Context(), "", "c"); !errors.Is(err, transport.ErrTooLarge) {
		t.Errorf("Awaited = %v, want %v", err, transport.ErrTooLarge)
	}
}
