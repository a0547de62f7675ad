package nats

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/transport"
)

// TestRepartition opens a stream of a version with 64 partitions: its waiting events are delivered in order, and so are its timers.
func TestRepartition(t *testing.T) {
	n := newNode(t, ServerOptions{})
	topic := transport.Inbox("acme", transport.Cortex)
	old := n.dial(t, nil)
	oldSubject := func(contextID string) string {
		h := fnv.New32a()
		_, _ = h.Write([]byte("acme." + transport.Escape(contextID)))
		return "cortex.v1.inbox.acme.cortex." + strconv.Itoa(int(h.Sum32()%64)) + "." + transport.Escape(contextID) + ".user"
	}
	config := streams(1)[0]
	config.Metadata, config.Subjects = nil, []string{timerPrefix + ">"}
	for p := range 64 {
		config.Subjects = append(config.Subjects, fmt.Sprintf("cortex.v1.inbox.*.*.%d.>", p))
	}
	if _, err := old.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	const conversations, each = 40, 3
	store := func(contextID, words string, at time.Time) {
		e := message(topic, contextID, words)
		a := inboxAddress{tenant: "acme", to: transport.Cortex, context: contextID, from: "user"}
		m, err := encode(oldSubject(contextID), e, true)
		if err != nil {
			t.Fatal(err)
		}
		m.Header[natsgo.MsgIdHdr] = []string{a.messageID(e.ID)}
		if !at.IsZero() {
			m.Header[jetstream.ScheduleHeader] = []string{"@at " + at.UTC().Format(time.RFC3339Nano)}
			m.Header[jetstream.ScheduleTargetHeader] = []string{m.Subject}
			m.Subject = timerSubject(a)
		}
		if _, err := old.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range each {
		for c := range conversations {
			store(fmt.Sprint("c", c), strconv.Itoa(i), time.Time{})
		}
	}
	due := time.Now().Add(3 * time.Second)
	for c := range conversations {
		store(fmt.Sprint("c", c), "timer", due)
	}
	_ = old.Close()

	b := n.dial(t, nil)
	// Overwriting each moved event would make the server rewrite the whole file each time, which takes hours when many wait.
	block, err := os.ReadFile(filepath.Join(n.opts.Dir, "jetstream", "$G", "streams", inboxStream, "msgs", "1.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for c := range conversations {
		if subject := oldSubject(fmt.Sprint("c", c)); bytes.Count(block, []byte(subject)) < each {
			t.Errorf("what was moved from %s is overwritten", subject)
		}
	}
	got := make(chan *transport.Event, 1000)
	serveTopic(t, b, topic, nil, func(e *transport.Event) error {
		got <- e
		return nil
	})
	heard := map[string][]string{}
	for range conversations * (each + 1) {
		e := receive(t, got)
		heard[e.ContextID] = append(heard[e.ContextID], text(e))
	}
	for c := range conversations {
		if words := fmt.Sprint(heard[fmt.Sprint("c", c)]); words != "[0 1 2 timer]" {
			t.Errorf("conversation %d heard %s, want each event once, in order, and what its timer sent", c, words)
		}
	}
	// A stream that was moved is not read again.
	s, err := b.js.Stream(t.Context(), inboxStream)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.CachedInfo().Config.Metadata[metaPartitions]; got != partitioned[metaPartitions] {
		t.Errorf("the stream says that it has %q partitions, want %q", got, partitioned[metaPartitions])
	}
}
