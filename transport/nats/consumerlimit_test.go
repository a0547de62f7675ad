package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cortex-orchestrator/cortex/cortex/conversation"
	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// stores opens the conversations and notes with the credentials of b.
func stores(t *testing.T, b *Bus) *jetstore.Store {
	t.Helper()
	s, err := jetstore.Open(t.Context(), b.Conn(), &jetstore.Options{API: b.API()})
	if err != nil {
		t.Fatalf("open the store as %v: %v", b.Identity(), err)
	}
	return s
}

// startService starts what an orchestrator starts, and returns the events that it receives.
func startService(t *testing.T, n *node) (*Bus, *jetstore.Store, <-chan *transport.Event) {
	t.Helper()
	b := n.dial(t, nil)
	s := stores(t, b)
	for _, kind := range []string{storage.NoteAgent, "evidence"} {
		for _, err := range s.Notes(t.Context(), "", kind) {
			if err != nil {
				t.Fatalf("read the notes: %v", err)
			}
		}
	}
	heard := make(chan *transport.Event, 10_000)
	hear := func(e *transport.Event) error {
		heard <- e
		return nil
	}
	board := make(chan *transport.Event, 10_000)
	serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
		board <- e
		return nil
	})
	for _, ok := receive(t, board).Payload.(*transport.Synced); !ok; _, ok = receive(t, board).Payload.(*transport.Synced) {
	}
	serveTopic(t, b, transport.Inbox("", transport.Cortex), nil, hear)
	return b, s, heard
}

// begin stores the first entry of a conversation.
func begin(t *testing.T, s *jetstore.Store, contextID string) {
	t.Helper()
	e := message(transport.Inbox("", transport.Cortex), contextID, "hello")
	e.To = transport.Cortex
	if _, err := s.Append(t.Context(), "", contextID, 0, &conversation.Entry{Seq: 1, Time: time.Now(), Cause: e}); err != nil {
		t.Fatal(err)
	}
}

// talks makes a person list the conversations and the agents, load one conversation, and send a message that the orchestrator receives.
func talks(t *testing.T, n *node, creds string, heard <-chan *transport.Event, conversations int) {
	t.Helper()
	b := n.dial(t, &Options{Creds: creds})
	defer func() { _ = b.Close() }()
	var s *jetstore.Store
	eventually(t, "the store is open", func() (open bool) { // a busy server may still handle others' requests
		var err error
		if s, err = jetstore.Open(t.Context(), b.Conn(), &jetstore.Options{API: b.API()}); err != nil && !errors.Is(err, transport.ErrUnavailable) {
			t.Fatalf("open the store as %v: %v", b.Identity(), err)
		}
		return err == nil
	})
	listed := 0
	for info, err := range s.Contexts(t.Context(), "") {
		if err != nil {
			t.Fatalf("list the conversations: %v", err)
		}
		if listed++; info.Title != "hello" {
			t.Errorf("conversation %s has the title %q", info.ContextID, info.Title)
		}
	}
	if listed != conversations {
		t.Errorf("%d conversations are listed, want %d", listed, conversations)
	}
	for _, err := range s.Load(t.Context(), "", "c1", 0) {
		if err != nil {
			t.Fatalf("load: %v", err)
		}
	}
	for _, err := range s.Notes(t.Context(), "", storage.NoteAgent) {
		if err != nil {
			t.Fatalf("read the notes: %v", err)
		}
	}
	board := make(chan *transport.Event, 10_000)
	serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
		board <- e
		return nil
	})
	for _, ok := receive(t, board).Payload.(*transport.Synced); !ok; _, ok = receive(t, board).Payload.(*transport.Synced) {
	}
	e := message(transport.Inbox("", transport.Cortex), "c1", "do you hear me?")
	e.From = b.Identity().ID
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Publish(ctx, transport.Inbox("", transport.Cortex), e); err != nil {
		t.Fatalf("publish: %v", err)
	}
	for got := receive(t, heard); got.ID != e.ID; got = receive(t, heard) {
	}
}

// TestOnePersonCannotStopTheService makes one person ask for more consumers than streams allow, and flood the gateway with all kinds of requests;
// then the service restarts. Other people are served all the time.
func TestOnePersonCannotStopTheService(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	cortexBus, s, heard := startService(t, n)
	for i := range 50 {
		begin(t, s, fmt.Sprint("c", i))
	}
	if _, err := s.PutNote(t.Context(), "", storage.NoteAgent, storage.Note{Key: "a", Value: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	bob := userCreds(t, dir, "", "bob")
	w := &town{node: n, dir: dir}
	eve := w.intruder(t, userCreds(t, dir, "", "eve"))
	ask := func(i int, subject, body string) {
		m := &natsgo.Msg{Subject: auth.Gateway(eve.who) + subject, Reply: fmt.Sprintf("%s.r.%d", auth.Replies(eve.who), i), Data: []byte(body)}
		if err := eve.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for i := range 1100 {
		for _, stream := range []string{"CORTEX_LOG", "KV_CORTEX_NOTES"} {
			m, err := eve.Request(auth.Gateway(eve.who)+jsAPI+"CONSUMER.CREATE."+stream+fmt.Sprintf(".x%d", i), fmt.Appendf(nil,
				`{"stream_name":"%s","config":{"name":"x%d","ack_policy":"none","deliver_policy":"new","inactive_threshold":300000000000}}`, stream, i), patience)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(m.Data), `"error"`) {
				made++
			}
		}
	}
	if made > 0 {
		t.Errorf("a person has made %d consumers", made)
	}
	for i := range 3000 {
		ask(i, jsAPI+"DIRECT.GET.CORTEX_LOG", `{"seq":1,"batch":1000000}`)
		ask(i, jsAPI+"STREAM.INFO.CORTEX_LOG", `{"subjects_filter":"cortex.v1.log._.*","deleted_details":true}`)
		ask(i, jsAPI+"STREAM.MSG.GET.CORTEX_LOG", `{"seq":1}`)
		ask(i, where(transport.Cortex, "user:eve"), words)
	}
	if err := eve.Flush(); err != nil {
		t.Fatal(err)
	}
	talks(t, n, bob, heard, 50)
	for name := range readStreams {
		stream, err := cortexBus.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if c := stream.CachedInfo().State.Consumers; c > 1 { // the watch of the cards
			t.Errorf("stream %s has %d consumers", name, c)
		}
	}
	eve.Close()
	n.Restart(t)
	_, _, heard = startService(t, n)
	talks(t, n, bob, heard, 50)
}

// TestLeftoversAreRemoved starts a gateway on streams with consumers that older versions let people make, and with those of a foreign tool.
func TestLeftoversAreRemoved(t *testing.T) {
	dir := keys(t)
	n := newNode(t, ServerOptions{Auth: dir})
	b := n.dial(t, nil)
	s := stores(t, b)
	begin(t, s, "c1")
	replies := auth.Replies(&auth.Identity{Role: auth.Person, ID: "user:eve"})
	eve := (&town{node: n, dir: dir}).intruder(t, userCreds(t, dir, "", "eve"))
	if _, err := eve.SubscribeSync(replies + ".>"); err != nil {
		t.Fatal(err)
	}
	if err := eve.Flush(); err != nil {
		t.Fatal(err)
	}
	add := func(stream, name, deliver string) {
		config := fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"ack_policy":"none","deliver_subject":%q,"inactive_threshold":300000000000}}`, stream, name, deliver)
		m, err := b.Conn().Request(jsAPI+"CONSUMER.CREATE."+stream+"."+name, []byte(config), patience)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			t.Fatalf("%v %s", err, m.Data)
		}
	}
	for i := range 20 {
		add("CORTEX_LOG", fmt.Sprint("x", i), fmt.Sprint(replies, ".", i))
		add("KV_CORTEX_NOTES", fmt.Sprint("x", i), fmt.Sprint(replies, ".", i))
	}
	add("CORTEX_LOG", "tool", "somebodys.tool")
	serveTopic(t, b, transport.Inbox("", transport.Cortex), nil, func(*transport.Event) error { return nil })
	for stream, want := range map[string]int{"CORTEX_LOG": 1, "KV_CORTEX_NOTES": 0} {
		eventually(t, "only what is somebody's is left in "+stream, func() bool {
			s, err := b.js.Stream(t.Context(), stream)
			return err == nil && s.CachedInfo().State.Consumers == want
		})
	}
}

// roomFor makes the inbox's stream anew with room for this many consumers.
func roomFor(t *testing.T, b *Bus, most int) {
	t.Helper()
	c := streams(1)[0]
	c.MaxConsumers = most
	if err := b.js.DeleteStream(t.Context(), inboxStream); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// crowded makes the inbox's stream with room for this many consumers, and uses them all.
func crowded(t *testing.T, b *Bus, most int, durable, used bool) {
	t.Helper()
	roomFor(t, b, most)
	for i := range most {
		name := fmt.Sprintf("tool-%d", i)
		config := jetstream.ConsumerConfig{Name: name, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: fmt.Sprintf("%s_.nobody%d.0.>", inboxPrefix, i), InactiveThreshold: time.Hour}
		if durable {
			config.Durable = name
		}
		if _, err := b.js.CreateConsumer(t.Context(), inboxStream, config); err != nil {
			t.Fatal(err)
		}
		if used {
			if err := b.nc.PublishRequest(jsAPI+"CONSUMER.MSG.NEXT."+inboxStream+"."+name, b.nc.NewInbox(), []byte(`{"batch":1,"expires":60000000000}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestServiceMakesRoom lets other programs use all consumers of the inbox and of the cards, as they can without keys.
func TestServiceMakesRoom(t *testing.T) {
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprint("used ", used), func(t *testing.T) {
			n := newNode(t, ServerOptions{})
			b := n.dial(t, nil)
			crowded(t, b, 100, false, used)
			agents := streams(1)[1]
			agents.MaxConsumers = 10
			if err := b.js.DeleteStream(t.Context(), agentsStream); err != nil {
				t.Fatal(err)
			}
			if _, err := b.js.CreateStream(t.Context(), agents); err != nil {
				t.Fatal(err)
			}
			for i := range 10 {
				c := jetstream.ConsumerConfig{Durable: fmt.Sprint("tool", i), AckPolicy: jetstream.AckNonePolicy}
				if _, err := b.js.CreateConsumer(t.Context(), agentsStream, c); err != nil {
					t.Fatal(err)
				}
			}
			heard, board := make(chan *transport.Event, 10), make(chan *transport.Event, 10)
			serveTopic(t, b, transport.Cards(""), nil, func(e *transport.Event) error {
				board <- e
				return nil
			})
			if _, ok := receive(t, board).Payload.(*transport.Synced); !ok {
				t.Error("want Synced first")
			}
			serveTopic(t, b, transport.Inbox("", transport.Cortex), nil, func(e *transport.Event) error {
				heard <- e
				return nil
			})
			for i := range 20 { // in all partitions
				publish(t, b, transport.Inbox("", transport.Cortex), fmt.Sprint("c", i), "hello")
				receive(t, heard)
			}
			card := &transport.Card{AgentID: "a", Instance: "1", TTL: time.Hour, Card: &a2a.AgentCard{Name: "a"}}
			if err := b.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "a", Payload: card}); err != nil {
				t.Fatal(err)
			}
			if c, ok := receive(t, board).Payload.(*transport.Card); !ok || c.AgentID != "a" {
				t.Errorf("card %+v, want a's", c)
			}
		})
	}
	t.Run("made to last", func(t *testing.T) {
		b := newNode(t, ServerOptions{}).dial(t, nil)
		crowded(t, b, 20, true, false)
		_, err := b.Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil)
		wantRefusal(t, "Subscribe", err, transport.ErrUnavailable, "has 20 consumers")
		wantRefusal(t, "Subscribe", err, transport.ErrUnavailable, "tool")
	})
}

// TestAgentsLeaveRoom makes agents' inboxes use all consumers except those reserved for the orchestrator.
func TestAgentsLeaveRoom(t *testing.T) {
	b := newNode(t, ServerOptions{}).dial(t, nil)
	roomFor(t, b, 20)
	whole := &transport.SubscribeOptions{Unordered: true}
	for i := range 20 - transport.Partitions {
		if _, err := b.Subscribe(t.Context(), transport.Inbox("", fmt.Sprint("a", i)), whole); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Subscribe(t.Context(), transport.Inbox("", "a0"), whole); err != nil {
		t.Errorf("one that has its inbox: %v", err)
	}
	_, err := b.Subscribe(t.Context(), transport.Inbox("", "more"), whole)
	wantRefusal(t, "Subscribe", err, transport.ErrUnavailable, "for the orchestrator")
	heard := make(chan *transport.Event, 10)
	serveTopic(t, b, transport.Inbox("", transport.Cortex), nil, func(e *transport.Event) error {
		heard <- e
		return nil
	})
	for i := range 20 {
		publish(t, b, transport.Inbox("", transport.Cortex), fmt.Sprint("c", i), "hello")
		receive(t, heard)
	}
}

// TestAgentsShareTheBoard makes one agent announce more instances than allowed; another agent can still announce itself.
func TestAgentsShareTheBoard(t *testing.T) {
	dir := keys(t)
	w := &town{node: newNode(t, ServerOptions{Auth: dir}), dir: dir}
	if _, err := w.dial(t, nil).Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil {
		t.Fatal(err)
	}
	in := w.intruder(t, agentCreds(t, w.dir, "", "thief"))
	refused := 0
	for i := range maxInstances + 10 {
		instance := fmt.Sprint(i)
		m := event("card", fmt.Sprintf(`{"agentId":"thief","instance":%q,"card":{"name":"thief"}}`, instance))
		m.Subject = auth.Gateway(in.who) + cardSubject("", "thief", instance)
		got, err := in.RequestMsg(m, patience)
		if err != nil {
			t.Fatal(err)
		}
		var ack struct{ Error *jetstream.APIError }
		if err := json.Unmarshal(got.Data, &ack); err != nil {
			t.Fatal(err)
		}
		if ack.Error != nil {
			refused++
		}
	}
	if refused != 10 {
		t.Errorf("%d cards were refused, want 10", refused)
	}
	other := w.dial(t, &Options{Creds: agentCreds(t, w.dir, "", "other")})
	card := &transport.Card{AgentID: "other", Instance: "1", TTL: time.Hour, Card: &a2a.AgentCard{Name: "other"}}
	if err := other.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "other", Payload: card}); err != nil {
		t.Errorf("another agent: %v", err)
	}
}

// TestBoundedPull checks the bounds of an agent's pull.
func TestBoundedPull(t *testing.T) {
	most := fmt.Sprintf(`"max_bytes":%d`, maxPullBytes)
	for asked, want := range map[string]string{
		``: `{"batch":1,` + most + `,"expires":60000000000}`,
		`{"batch":256,"max_bytes":1048576,"expires":60000000000,"idle_heartbeat":2000000000}`: `{"batch":256,"max_bytes":1048576,"expires":60000000000,"idle_heartbeat":2000000000}`,
		`{"batch":256,"max_bytes":8388608}`:                                                   `{"batch":256,` + most + `,"expires":60000000000}`,
		`{"batch":1,"no_wait":true}`:                                                          `{"batch":1,` + most + `,"no_wait":true}`,
		`{"batch":1000000000,"expires":86400000000000,"idle_heartbeat":1}`:                    `{"batch":150000,` + most + `,"expires":120000000000,"idle_heartbeat":500000000}`,
		`{"batch":-1,"expires":-1,"idle_heartbeat":-1,"group":"x"}`:                           `{"batch":1,` + most + `,"expires":60000000000}`,
		`{"batch":1,"expires":600000000,"idle_heartbeat":1}`:                                  `{"batch":1,` + most + `,"expires":600000000}`,
	} {
		m, err := boundedPull("x", []byte(asked))
		if err != nil || string(m.Data) != want {
			t.Errorf("boundedPull(%s) = %s, %v, want %s", asked, m.Data, err, want)
		}
	}
	for _, asked := range []string{`[]`, `7`, `{`} {
		if _, err := boundedPull("x", []byte(asked)); err == nil {
			t.Errorf("boundedPull(%s) is passed on", asked)
		}
	}
}

// TestLargeCards makes one agent announce instances with large cards: every subscriber reads them all, so their total size is bounded, and the
// error says what to do. Cards that are gone make room.
func TestLargeCards(t *testing.T) {
	dir := keys(t)
	w := &town{node: newNode(t, ServerOptions{Auth: dir}), dir: dir}
	if _, err := w.dial(t, nil).Subscribe(t.Context(), transport.Inbox("", transport.Cortex), nil); err != nil {
		t.Fatal(err)
	}
	bus := w.dial(t, &Options{Creds: agentCreds(t, w.dir, "", "large")})
	say := func(instance int, gone transport.GoneReason) error {
		c := &transport.Card{AgentID: "large", Instance: fmt.Sprint(instance), TTL: time.Hour, Gone: gone}
		if gone == "" {
			c.Card = &a2a.AgentCard{Name: "large", Description: strings.Repeat("x", 60<<10)}
		}
		return bus.Publish(t.Context(), transport.Cards(""), &transport.Event{ID: "c", From: "large", Payload: c})
	}
	const room = maxInstanceBytes / (61 << 10)
	for i := range room {
		for range 2 { // each is refreshed
			if err := say(i, ""); err != nil {
				t.Fatalf("instance %d: %v", i, err)
			}
		}
	}
	for i := range 5 {
		if err := say(room+i, ""); err != nil && i == 0 {
			t.Errorf("instance %d: %v", room, err) // the other parts of the events are small
		} else if i > 2 && (!errors.Is(err, transport.ErrFull) || !strings.Contains(err.Error(), "run fewer instances, or make the card")) {
			t.Errorf("instance %d: %v, want that its cards are too large together", room+i, err)
		}
	}
	for i := range 3 {
		if err := say(i, transport.GoneLeft); err != nil {
			t.Fatal(err)
		}
	}
	if err := say(room+4, ""); err != nil {
		t.Errorf("an instance when others have gone: %v", err)
	}
}
