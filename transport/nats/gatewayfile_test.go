package nats

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// TestFilesThroughGateway makes a person and an agent store and read files with their own credentials, and checks that they can do no more with
// them.
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
		if m, err := w.cortex.last(t.Context(), chunkSubject(ref.Object, 0)); err != nil || len(m.Header) == 0 {
			t.Errorf("the chunk of %s has no header, which shows damage of its subject: %v", c.from, err)
		}
		// No user can overwrite another user's file, even without the checks of PutChunk.
		err = c.reader.store(t.Context(), chunkMessage(ref.Object, 0, make([]byte, 100)))
		if !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("a chunk of %s, written by the other one: %v, want ErrForbidden", c.from, err)
		}
		if err := c.reader.RemoveObject(t.Context(), ref.Object); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("RemoveObject of %s by the other one: %v, want ErrForbidden", c.from, err)
		}
		says := message(transport.Inbox("", transport.Cortex), "c.1", "look")
		says.From = c.from
		if err := c.writer.Publish(t.Context(), transport.Inbox("", transport.Cortex), says); err != nil {
			t.Fatal(err)
		}
		w.log(t, "c.1", ref.Part("", ""))
		if err := c.writer.RemoveObject(t.Context(), ref.Object); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("RemoveObject of %s, of which an entry speaks: %v, want ErrForbidden", c.from, err)
		}
		if err := c.writer.removeFiles(t.Context(), objectSubject(ref.Object)+".*"); !errors.Is(err, transport.ErrForbidden) {
			t.Errorf("the file of %s, removed by who goes round that: %v, want ErrForbidden", c.from, err)
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

// TestFilesOfOneAreBounded stores as many files of a person as allowed, by the person and by the orchestrator for them: further ones are refused until
// some are deleted. Others have their own share, and Cortex has no bound.
func TestFilesOfOneAreBounded(t *testing.T) {
	w := newTown(t)
	person := w.dial(t, &Options{Creds: userCreds(t, w.dir, "", "ada")})
	by, from := person, "user:ada"
	put := func(n int) error {
		o := transport.Object{ContextID: "c1", From: from, ID: strconv.Itoa(n)}
		return by.PutChunk(t.Context(), o, 0, make([]byte, 100))
	}
	for n := range 3 {
		if n == 2 { // as for a person who comes by HTTP
			by = w.cortex
		}
		if err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	by = person
	w.cortex.mu.Lock()
	d := w.cortex.gateways[""]
	w.cortex.mu.Unlock()
	d.mu.Lock()
	d.ownChunks = 4
	d.mu.Unlock()
	if err := put(3); err != nil {
		t.Fatal(err)
	}
	err := put(4)
	if !errors.Is(err, transport.ErrFilesFull) || errors.Is(err, transport.ErrUnavailable) || !strings.Contains(err.Error(), "delete conversations") {
		t.Errorf("one more than a person may keep: %v, want ErrFilesFull with what to do", err)
	}
	by = w.cortex
	if err := put(4); !errors.Is(err, transport.ErrFilesFull) {
		t.Errorf("one more, which Cortex stores for the person: %v, want ErrFilesFull", err)
	}
	for _, from = range []string{"user:bob", transport.Cortex} {
		for n := range 4 {
			if err := put(10 + n); err != nil {
				t.Errorf("a file of %s: %v, want nil", from, err)
			}
		}
	}
	if err := put(14); err != nil {
		t.Errorf("one more of Cortex: %v, want nil", err)
	}
	if err := w.cortex.Erase(t.Context(), "", "c1"); err != nil {
		t.Fatal(err)
	}
	from = "user:ada"
	for _, by = range []*Bus{w.cortex, person} {
		if err := put(5); err != nil {
			t.Errorf("when those are deleted: %v, want nil", err)
		}
	}
}

// TestLargeFileThroughGateway makes a person store a file above the orchestrator's limit: it is refused permanently, whatever limit the person's
// own program has.
func TestLargeFileThroughGateway(t *testing.T) {
	w := newTown(t)
	const most = transport.FileChunk + 10
	w.cortex.maxFile = most // before any file is stored
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

// TestUncountedIsNotNothing makes the server not report how much a user stores, or how much room is left: the gateway refuses the file. The request
// costs nothing and is not forwarded.
func TestUncountedIsNotNothing(t *testing.T) {
	w := newTown(t)
	in := w.intruder(t, userCreds(t, w.dir, "", "ada"))
	g := w.cortex.gateways[""]
	own := g.shelf(in.who.ID)
	for _, stream := range []string{fileStream, logStream} {
		if err := w.cortex.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.fileRoom(own, func() error { return nil }); !errors.Is(err, transport.ErrUnavailable) || !own.counted.IsZero() {
		t.Errorf("fileRoom, when nothing can be counted: %v, counted %v, want ErrUnavailable", err, own.counted)
	}
	const request = jsAPI + "STREAM.INFO." + logStream
	asked, err := w.cortex.nc.SubscribeSync(request)
	if err == nil {
		err = w.cortex.nc.FlushTimeout(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := in.Request(auth.Gateway(in.who)+request, []byte(`{"subjects_filter":"cortex.v1.log._.>"}`), patience)
	if err != nil || !strings.Contains(string(m.Data), `"err_code":10059`) {
		t.Errorf("what cannot be counted is answered with %v, %v, want the server's error", m, err)
	}
	if err := g.counts.Publish(request, []byte("end")); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		m, err := asked.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) == "end" {
			if n != 1 {
				t.Errorf("the server was asked %d times for what it cannot count, want once", n)
			}
			return
		}
	}
}

// TestServerWithoutRoom checks that a server whose account may store no more refuses a file with ErrFilesFull.
func TestServerWithoutRoom(t *testing.T) {
	n := newNode(t, ServerOptions{})
	b := n.dial(t, nil)
	put := func(n int) error {
		return b.PutChunk(t.Context(), transport.Object{ContextID: "c", From: "user", ID: "1"}, n, make([]byte, 100<<10))
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	few := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: 150 << 10, MaxStreams: -1, MaxConsumers: -1}
	if err := n.srv.ns.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": few}); err != nil {
		t.Fatal(err)
	}
	if err := put(1); !errors.Is(err, transport.ErrFilesFull) || errors.Is(err, transport.ErrUnavailable) {
		t.Errorf("a file for which there is no room: %v, want ErrFilesFull", err)
	}
	for code, want := range map[jetstream.ErrorCode]bool{errNoResources: true, 10047: true, 10008: false, 0: false} {
		if got := hasNoRoom(translate(&jetstream.APIError{Code: 503, ErrorCode: code})); got != want {
			t.Errorf("error %d says that there is no room: %v, want %v", code, got, want)
		}
	}
}
