package nats

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	natsgo "github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/transport"
)

// BenchmarkFloor measures a request and its reply over core NATS, the lower bound for everything else.
func BenchmarkFloor(b *testing.B) {
	bus := benchBus(b)
	sub, err := bus.nc.Subscribe("floor", func(m *natsgo.Msg) { _ = m.Respond(m.Data) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	data := make([]byte, 256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bus.nc.RequestWithContext(b.Context(), "floor", data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublish stores an event that nobody handles.
func BenchmarkPublish(b *testing.B) {
	bus := benchBus(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if err := bus.Publish(b.Context(), benchInbox, benchEvent(i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLive publishes a live event without listeners.
func BenchmarkLive(b *testing.B) {
	bus := benchBus(b)
	b.ReportAllocs()
	e := benchEvent(1)
	e.To = ""
	for b.Loop() {
		if err := bus.Publish(b.Context(), transport.Live("", "c1"), e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkListeners publishes a live event of 100 KB, and waits until 300 have heard it.
func BenchmarkListeners(b *testing.B) {
	bus := benchBus(b)
	const listeners = 300
	topic := transport.Live("", "c1")
	heard := make(chan struct{}, listeners)
	for range listeners {
		s, err := bus.Subscribe(b.Context(), topic, nil)
		if err != nil {
			b.Fatal(err)
		}
		go func() { // ends with the bus
			_ = s.Serve(b.Context(), func(context.Context, *transport.Event) error {
				heard <- struct{}{}
				return nil
			})
		}()
	}
	e := benchEvent(1)
	e.To = ""
	e.Payload = &a2a.Message{ID: "m", Role: a2a.MessageRoleAgent, Parts: a2a.ContentParts{a2a.NewTextPart(strings.Repeat("x", 100<<10))}}
	b.ReportAllocs()
	for b.Loop() {
		if err := bus.Publish(b.Context(), topic, e); err != nil {
			b.Fatal(err)
		}
		for range listeners {
			<-heard
		}
	}
}

// BenchmarkHandle publishes an event and waits until its handler is called, with 1 and with 64 events at a time.
func BenchmarkHandle(b *testing.B) {
	for _, width := range []int{1, 64} {
		b.Run(strconv.Itoa(width), func(b *testing.B) {
			bus := benchBus(b)
			handled := make(chan struct{}, width)
			sub, err := bus.Subscribe(b.Context(), benchInbox, nil)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = sub.Serve(ctx, func(context.Context, *transport.Event) error {
					handled <- struct{}{}
					return nil
				})
			}()
			defer func() {
				cancel()
				<-done
			}()
			next := make(chan int)
			var publishers sync.WaitGroup
			for range width {
				publishers.Go(func() {
					for i := range next {
						if err := bus.Publish(b.Context(), benchInbox, benchEvent(i)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			defer publishers.Wait()
			defer close(next)
			b.ReportAllocs()
			sent, got := 0, 0
			for b.Loop() {
				for sent-got >= width {
					<-handled
					got++
				}
				next <- sent
				sent++
			}
			for got < sent {
				<-handled
				got++
			}
		})
	}
}

// BenchmarkBacklog handles a backlog of 20,000 events of 2,000 conversations.
func BenchmarkBacklog(b *testing.B) {
	const events, conversations = 20_000, 2_000
	bus := benchBus(b)
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		var publishing errgroup.Group
		publishing.SetLimit(64)
		for i := range events {
			publishing.Go(func() error {
				e := benchEvent(round*events + i)
				e.ContextID = "c" + strconv.Itoa(i%conversations)
				return bus.Publish(b.Context(), benchInbox, e)
			})
		}
		if err := publishing.Wait(); err != nil {
			b.Fatal(err)
		}
		var handled atomic.Int64
		all := make(chan struct{})
		b.StartTimer()
		sub, err := bus.Subscribe(b.Context(), benchInbox, nil)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = sub.Serve(ctx, func(context.Context, *transport.Event) error {
				if handled.Add(1) == events {
					close(all)
				}
				return nil
			})
		}()
		<-all
		b.StopTimer()
		cancel()
		<-ended
		_ = sub.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

var benchInbox = transport.Inbox("", transport.Cortex)

func benchEvent(i int) *transport.Event {
	id := "ev-" + strconv.Itoa(i)
	c := "c" + strconv.Itoa(i%64)
	return &transport.Event{
		ID: id, From: "user", To: transport.Cortex, ContextID: c,
		Payload: &a2a.Message{ID: id, ContextID: c, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(benchText)}},
	}
}

var benchText = "What is the weather like in Lisbon, and how long does the ferry to Cacilhas take on a Sunday? " +
	"Please answer in one sentence, and say where the numbers are from, so that I can look them up myself."

func benchBus(b *testing.B) *Bus {
	b.Helper()
	srv, err := StartServer(b.Context(), &ServerOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Shutdown)
	bus, err := Dial(b.Context(), &Options{Server: srv})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bus.Close() })
	return bus
}
