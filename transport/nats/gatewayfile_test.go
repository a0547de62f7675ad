package nats

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestFilesThroughGateway has a person and an agent store and read files with their own credentials, and do no more with them.
func TestFilesThroughGateway(t *testing.T) {
	w := newTown(t)
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	agent := w.dial(t, &Options{Creds: agentCreds(t, w.dir, "", "w.1")})
	want := bytes.Repeat([]byte("file"), 200<<10)
	for _, c := range []struct {
		from           string
		writer, reader *Bus
	}{{"user:ada", person, agent}, {"w.1", agent, person}} {
		ref, err := transport.PutFile(t.Context(), c.writer, "", "c.1", c.from, bytes.NewReader(want), 1<<30)
		if err != nil {
			t.Fatalf("%s stores a file: %v", c.from, err)
		}
		got, err := transport.ReadPart(t.Context(), c.reader, "", ref.Part("", ""), 1<<30)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the file of %s is %d bytes for the other one, %v", c.from, len(got), err)
		}
		// Nobody writes over what another one has stored, not even by going round the checks of PutChunk.
		err = c.reader.store(t.Context(), chunkMessage(ref.Object, 0, make([]byte, 100)))
		if !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("a chunk of %s, written by the other one: %v, want ErrForbidden", c.from, err)
		}
		if err := c.writer.RemoveObject(t.Context(), ref.Object); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("RemoveObject of %s: %v, want ErrForbidden", c.from, err)
		}
		if _, err := c.reader.last(t.Context(), filePrefix+"_.>"); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("any file is given to who does not know its name: %v, want ErrForbidden", err)
		}
	}
	theirs := transport.Object{Tenant: "acme", ContextID: "c", From: "user:ada", ID: "1"}
	if err := person.PutChunk(t.Context(), theirs, 0, make([]byte, 100)); !errors.Is(err, transport.ErrForbidden) {
		t.Errorf("a chunk for another tenant: %v, want ErrForbidden", err)
	}
}

// TestFilesOfOneAreBounded has a person keep as many files as one may: no more are taken, until some are deleted.
func TestFilesOfOneAreBounded(t *testing.T) {
	w := newTown(t)
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	o := transport.Object{ContextID: "c1", From: "user:ada", ID: "1"}
	put := func(n int) error { return person.PutChunk(t.Context(), o, n, make([]byte, 100)) }
	for n := range 3 {
		if err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	w.cortex.mu.Lock()
	d := w.cortex.gateways[""]
	w.cortex.mu.Unlock()
	d.mu.Lock()
	d.ownChunks = 4
	d.mu.Unlock()
	if err := put(3); err != nil {
		t.Fatal(err)
	}
	if err := put(4); !errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("one more than a person may keep: %v, want ErrUnavailable", err)
	}
	if err := w.cortex.Erase(t.Context(), "", "c1"); err != nil {
		t.Fatal(err)
	}
	if err := put(5); err != nil {
		t.Errorf("when those are deleted: %v, want nil", err)
	}
}

// TestLargeFileThroughGateway has a person store a file that is larger than the orchestrator lets in: it is refused for good, whatever the person's own
// program thinks is too large.
func TestLargeFileThroughGateway(t *testing.T) {
	w := newTown(t)
	const most = transport.FileChunk + 10
	w.cortex.maxFile = most // before anybody stores one
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	put := func(size int) error {
		_, err := transport.PutFile(t.Context(), person, "", "c1", "user:ada", bytes.NewReader(make([]byte, size)), 1<<30)
		return err
	}
	if err := put(most); err != nil {
		t.Errorf("a file of as many bytes as there may be: %v", err)
	}
	if err := put(2*transport.FileChunk + 1); !errors.Is(err, transport.ErrInvalid) || !strings.Contains(err.Error(), "a file may have at most 262 kB here") {
		t.Errorf("a file of more: %v, want ErrInvalid with the bound", err)
	}
}
