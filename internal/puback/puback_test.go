package puback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// What plain accepts, it reads as encoding/json does.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		`{"stream":"CORTEX_LOG","seq":12}`, `{"stream":"A","seq":0}`, `{"stream":"","seq":1}`, `{"stream":"A","seq":+1}`, `{"stream":"A","seq":01}`,
		`{"stream":"A","seq":18446744073709551616}`, `{"stream":"A","seq":1,"duplicate":true}`, `{"stream":"A","seq":1_0}`, `{"error":{"code":400}}`, `{"stream":"A\"","seq":1}`,
		`{"stream":"A","seq":1} `, "",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, ok := plain(b)
		var ack struct {
			Stream string `json:"stream"`
			Seq    uint64 `json:"seq"`
		}
		if err := json.Unmarshal(b, &ack); ok && (err != nil || ack.Seq != seq || ack.Stream == "") {
			t.Errorf("plain(%q) = %d; json: %+v, %v", b, seq, ack, err)
		}
	})
}

func TestPlainReadsAcknowledgements(t *testing.T) {
	if seq, ok := plain([]byte(`{"stream":"CORTEX_INBOX", "seq":7}`)); ok {
		t.Errorf("got %d for one that is written otherwise", seq)
	}
	if seq, ok := plain([]byte(`{"stream":"CORTEX_INBOX","seq":18446744073709551615}`)); !ok || seq != 1<<64-1 {
		t.Errorf("got %d, %t", seq, ok)
	}
}

// connected returns a connection to a server without JetStream. The test answers in its place.
func connected(t *testing.T) *nats.Conn {
	t.Helper()
	ns, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	nc, err := nats.Connect("", nats.InProcessServer(ns), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	return nc
}

func ack(seq int) []byte { return fmt.Appendf(nil, `{"stream":"S","seq":%d}`, seq) }

// stream answers what is published to a subject.
func stream(t *testing.T, nc *nats.Conn, subject string, answer func(*nats.Msg)) {
	t.Helper()
	if _, err := nc.Subscribe(subject, answer); err != nil {
		t.Fatal(err)
	}
}

// TestAnswersReachWhoWaits publishes more messages at once than there are places, and checks that each publish gets its own answer.
func TestAnswersReachWhoWaits(t *testing.T) {
	nc := connected(t)
	const most, sides, each = 3, 10, 50
	addresses := map[string]bool{}
	stream(t, nc, "s", func(m *nats.Msg) {
		addresses[m.Reply[:strings.LastIndexByte(m.Reply, '.')]] = true
		seq, _ := strconv.Atoi(string(m.Data))
		nc.Publish(m.Reply, ack(seq)) //nolint:errcheck // who waits tells
	})
	p := New(nc, most)
	var all sync.WaitGroup
	for side := range sides {
		all.Go(func() {
			for i := range each {
				want := uint64(1 + side*each + i)
				got, err := p.Publish(t.Context(), &nats.Msg{Subject: "s", Data: strconv.AppendUint(nil, want, 10)}, time.Minute)
				if got != want || err != nil {
					t.Errorf("Publish = %d, %v; want %d", got, err, want)
				}
			}
		})
	}
	all.Wait()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(addresses) > most {
		t.Errorf("%d addresses for answers, want at most %d", len(addresses), most)
	}
}

// TestFewLargeMessagesAtATime publishes large messages that nobody acknowledges: a small one passes them, the next large one is not sent before one of them has ended,
// and gives up in time.
func TestFewLargeMessagesAtATime(t *testing.T) {
	nc := connected(t)
	const size, most = 512 << 10, mostLarge / (512 << 10)
	came := make(chan *nats.Msg, 10)
	stream(t, nc, "large", func(m *nats.Msg) { came <- m })
	stream(t, nc, "small", func(m *nats.Msg) { nc.Publish(m.Reply, ack(1)) }) //nolint:errcheck // who waits tells
	p := New(nc, 10)
	large := func(wait time.Duration) error {
		_, err := p.Publish(t.Context(), &nats.Msg{Subject: "large", Data: make([]byte, size)}, wait)
		return err
	}
	ended := make(chan error, most+1)
	for range most {
		go func() { ended <- large(time.Minute) }()
	}
	var first *nats.Msg
	for range most {
		first = <-came
	}
	if err := large(time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnsent) {
		t.Errorf("one more ends with %v", err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "small"}, time.Minute); err != nil { // it comes behind what was sent before
		t.Errorf("a small one: %v", err)
	}
	if n := len(came); n > 0 {
		t.Fatalf("%d large messages more were sent", n)
	}
	go func() { ended <- large(time.Minute) }()
	nc.Publish(first.Reply, ack(1)) //nolint:errcheck // who waits tells
	for range most - 1 {
		go func() { m := <-came; nc.Publish(m.Reply, ack(2)) }() //nolint:errcheck // who waits tells
	}
	if err := <-ended; err != nil {
		t.Errorf("a large one that is acknowledged: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the one that waited for it: %v", err)
	}
}

// TestLateAnswerIsNobodys sends answers too late, and twice. The next publish must not take them for its own.
func TestLateAnswerIsNobodys(t *testing.T) {
	nc := connected(t)
	late := make(chan *nats.Msg, 1)
	stream(t, nc, "late", func(m *nats.Msg) { late <- m })
	stream(t, nc, "twice", func(m *nats.Msg) {
		m.Respond(ack(1)) //nolint:errcheck // who waits tells
		m.Respond(ack(1)) //nolint:errcheck // nobody wants it
	})
	stream(t, nc, "refused", func(m *nats.Msg) {
		m.Respond([]byte(`{"error":{"code":503,"err_code":10008}}`)) //nolint:errcheck // who waits tells
		m.Respond(ack(1))                                            //nolint:errcheck // nobody wants it
	})
	stream(t, nc, "next", func(m *nats.Msg) { m.Respond(ack(2)) }) //nolint:errcheck // who waits tells
	p := New(nc, 1)
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "nobody"}, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without a stream, Publish = %v", err)
	}
	next := func(what string) {
		t.Helper()
		if seq, err := p.Publish(t.Context(), &nats.Msg{Subject: "next"}, time.Minute); seq != 2 || err != nil {
			t.Errorf("behind %s, Publish = %d, %v; want 2", what, seq, err)
		}
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "late"}, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without an answer, Publish = %v", err)
	}
	(<-late).Respond(ack(1)) //nolint:errcheck // nobody wants it
	next("a late answer")
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan *nats.Msg, 1)
	go func() {
		held <- <-late
		cancel()
	}()
	if _, err := p.Publish(ctx, &nats.Msg{Subject: "late"}, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends, Publish = %v", err)
	}
	(<-held).Respond(ack(1)) //nolint:errcheck // nobody wants it
	next("a context that ended")
	if seq, err := p.Publish(t.Context(), &nats.Msg{Subject: "twice"}, time.Minute); seq != 1 || err != nil {
		t.Errorf("Publish = %d, %v", seq, err)
	}
	next("two answers")
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "refused"}, time.Minute); err == nil {
		t.Error("Publish has no error for a refusal")
	}
	next("a refusal and an answer")
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "nobody"}, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without a stream, Publish = %v", err)
	}
	next("no stream")
}

// TestAddressIsUsedAgain publishes one message after the other: the address for the answers is the same one until an answer is missing, or an error, and
// never in a cluster.
func TestAddressIsUsedAgain(t *testing.T) {
	for cluster, want := range map[string]string{"": "1 1 2 2 2 3 3", "c": "1 2 3 4 5 6 7"} {
		nc := connected(t)
		var got []string // its elements are read behind heard
		heard := make(chan struct{}, 1)
		stream(t, nc, "*", func(m *nats.Msg) {
			got = append(got, m.Reply[strings.LastIndexByte(m.Reply, '.')+1:])
			switch m.Subject {
			case "ok":
				m.Respond(ack(len(got))) //nolint:errcheck // who waits tells
			case "refused":
				m.Respond([]byte(`{"error":{"code":400,"err_code":10071}}`)) //nolint:errcheck // who waits tells
			}
			heard <- struct{}{}
		})
		p := New(nc, 1)
		p.cluster = func() string { return cluster }
		for _, subject := range []string{"ok", "silent", "ok", "ok", "refused", "ok", "ok"} {
			_, err := p.Publish(t.Context(), &nats.Msg{Subject: subject}, map[bool]time.Duration{true: time.Millisecond, false: time.Minute}[subject == "silent"])
			<-heard
			if (err == nil) != (subject == "ok") {
				t.Errorf("Publish to %s = %v", subject, err)
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("in cluster %q the addresses end with %s, want %s", cluster, got, want)
		}
	}
}

// TestFail ends publishes in flight, by Fail and by closing the connection.
func TestFail(t *testing.T) {
	nc := connected(t)
	asked := make(chan struct{}, 2)
	stream(t, nc, "silent.*", func(*nats.Msg) { asked <- struct{}{} })
	p := New(nc, 2)
	publish := func(subject string) <-chan error {
		failed := make(chan error, 1)
		go func() {
			_, err := p.Publish(context.WithoutCancel(t.Context()), &nats.Msg{Subject: subject}, time.Minute)
			failed <- err
		}()
		<-asked
		return failed
	}
	a, b := publish("silent.a"), publish("silent.b")
	refused := errors.New("refused")
	p.Fail(func(subject string) bool { return subject == "silent.a" }, refused)
	if err := <-a; !errors.Is(err, refused) {
		t.Errorf("Publish = %v, want that it was refused", err)
	}
	nc.Close()
	if err := <-b; !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("when the connection is lost, Publish = %v", err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "silent.c"}, time.Minute); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("on a connection that is closed, Publish = %v", err)
	}
}
