package torture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/cortex-orchestrator/cortex/cortex/jetstore"
	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats"
)

// Times of a client.
const (
	pause    = 300 * time.Millisecond // at most, between an answer and the next message
	askEvery = 500 * time.Millisecond // interval of reading the log for an answer that the live topic may have lost
	again    = 100 * time.Millisecond // after an error
	askTime  = 10 * time.Second       // for reading the log, also a long one on a busy machine
)

// dial connects to the server of a run, and retries while it is unavailable.
func dial(ctx context.Context, url, name string, log *slog.Logger) (*nats.Bus, error) {
	for {
		bus, err := nats.Dial(ctx, &nats.Options{URL: url, Name: name, Logger: log})
		if err == nil || !errors.Is(err, transport.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return bus, err
		}
		log.Info("no server", "err", err)
		if err := rest.For(ctx, again); err != nil {
			return nil, err
		}
	}
}

// open is dial, with the store. The caller closes the bus.
func open(ctx context.Context, url, name string, log *slog.Logger) (*nats.Bus, *jetstore.Store, error) {
	bus, err := dial(ctx, url, name, log)
	if err != nil {
		return nil, nil, err
	}
	for {
		try, cancel := context.WithTimeout(ctx, askTime)
		store, err := jetstore.Open(try, bus.Conn(), &jetstore.Options{Logger: log})
		cancel()
		if err == nil {
			return bus, store, nil
		}
		log.Info("no logs", "err", err)
		if errors.Is(err, transport.ErrIncompatible) || rest.For(ctx, again) != nil {
			bus.Close()
			return nil, nil, err
		}
	}
}

// client has the conversations of one process.
type client struct {
	bus      transport.Transport
	store    storage.Store
	journal  *journal
	draining atomic.Bool
	log      *slog.Logger
}

// Client has the conversations of the n-th client of the plan in folder. It continues where an earlier process of the same client was killed, and
// returns nil when it was told to drain and everything is answered.
func Client(ctx context.Context, folder string, n int, log *slog.Logger) error {
	plan, err := readPlan(folder)
	if err != nil {
		return err
	}
	j, records, err := openJournal(journalFile(folder, n))
	if err != nil {
		return err
	}
	defer j.close()
	bus, store, err := open(ctx, plan.URL, "client-"+strconv.Itoa(n), log)
	if err != nil {
		return err
	}
	defer bus.Close()
	c := &client{bus: bus, store: store, journal: j, log: log}
	g, gctx := errgroup.WithContext(ctx)
	var talking atomic.Int64
	talks := plan.talks(n)
	talking.Store(int64(len(talks)))
	g.Go(func() error { // until the last conversation has ended
		for talking.Load() > 0 {
			if _, err := os.Stat(filepath.Join(folder, drainFile)); err == nil {
				c.draining.Store(true)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := rest.For(gctx, again); err != nil {
				return err
			}
		}
		return nil
	})
	for _, t := range talks {
		g.Go(func() error {
			defer talking.Add(-1)
			return c.hold(gctx, t, records)
		})
	}
	return g.Wait()
}

func journalFile(folder string, n int) string {
	return filepath.Join(folder, "client-"+strconv.Itoa(n)+".journal")
}

// seen is an answer that was seen.
type seen struct {
	at       time.Time
	message  string
	id, text string
	via      string
}

// hold has a conversation.
func (c *client) hold(ctx context.Context, t talk, records []record) error {
	open := map[string]message{}     // accepted and unanswered
	since := map[string]time.Time{}  // when they were accepted
	answers := map[string][]string{} // ids of those seen, by message
	next, pending := 0, -1
	for _, r := range records {
		if r.Context != t.id {
			continue
		}
		m := t.message(r.N)
		switch r.Op {
		case opIntent:
			next, pending = r.N+1, r.N
		case opAccepted:
			pending, open[m.id], since[m.id] = -1, m, r.Time
		case opAnswer:
			answers[r.ID] = append(answers[r.ID], r.Answer)
			delete(open, r.ID)
		}
	}

	live, events, err := c.watch(ctx, t)
	if err != nil {
		return err
	}
	defer live()
	say := func(n int, intended bool) error {
		m := t.message(n)
		if !intended {
			if err := c.journal.add(record{Time: time.Now(), Op: opIntent, Context: t.id, ID: m.id, N: n}); err != nil {
				return err
			}
		}
		if err := c.say(ctx, t, m); err != nil {
			return err
		}
		now := time.Now()
		if len(answers[m.id]) == 0 {
			open[m.id], since[m.id] = m, now
		}
		return c.journal.add(record{Time: now, Op: opAccepted, Context: t.id, ID: m.id, N: n})
	}
	if pending >= 0 {
		if err := say(pending, true); err != nil {
			return err
		}
	}
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	for {
		for len(open) < t.window() && !c.draining.Load() {
			if err := say(next, false); err != nil {
				return err
			}
			next++
		}
		if len(open) == 0 && c.draining.Load() {
			return nil
		}
		var got []seen
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-events:
			got = append(got, s)
		case <-ask.C:
			got = c.ask(ctx, t, open, since)
		}
		answered := false
		for _, s := range got {
			n, err := t.number(s.message)
			if err != nil || slices.Contains(answers[s.message], s.id) {
				continue // another message's, which the log shows; or seen before
			}
			answers[s.message] = append(answers[s.message], s.id)
			delete(open, s.message)
			answered = true
			err = c.journal.add(record{Time: s.at, Op: opAnswer, Context: t.id, ID: s.message, N: n, Answer: s.id, Text: s.text, Via: s.via})
			if err != nil {
				return err
			}
		}
		if answered && !c.draining.Load() {
			if err := rest.For(ctx, rand.N(pause)); err != nil {
				return err
			}
		}
	}
}

// watch subscribes to the live events of a conversation, until stop is called.
func (c *client) watch(ctx context.Context, t talk) (stop func(), events <-chan seen, err error) {
	sub, err := c.bus.Subscribe(ctx, transport.Live("", t.id), &transport.SubscribeOptions{Concurrency: 1})
	for errors.Is(err, transport.ErrUnavailable) && rest.For(ctx, again) == nil {
		sub, err = c.bus.Subscribe(ctx, transport.Live("", t.id), &transport.SubscribeOptions{Concurrency: 1})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("watch %s: %w", t.id, err)
	}
	ch, served := make(chan seen, 64), make(chan struct{})
	go func() {
		defer close(served)
		sub.Serve(ctx, func(_ context.Context, e *transport.Event) error { //nolint:errcheck // it ends with ctx or with Close
			m, ok := e.Payload.(*a2a.Message)
			if ok && m.Role == a2a.MessageRoleAgent && e.From == transport.Cortex && transport.MetaString(m, transport.MetaRequester) == t.user() {
				select {
				case ch <- seen{time.Now(), transport.MetaString(m, transport.MetaMessage), m.ID, transport.Text(m.Parts), "live"}:
				default: // the log has it, too
				}
			}
			return nil
		})
	}()
	return func() {
		sub.Close()
		<-served
	}, ch, nil
}

// say publishes a message until the transport accepts it, which the constant id permits.
func (c *client) say(ctx context.Context, t talk, m message) error {
	for {
		err := c.bus.Publish(ctx, transport.Inbox("", transport.Cortex), &transport.Event{
			ID: m.id, Time: time.Now(), From: t.user(), To: transport.Cortex, ContextID: t.id,
			Payload: &a2a.Message{ID: m.id, ContextID: t.id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(m.text)}},
		})
		if err == nil || ctx.Err() != nil || errors.Is(err, transport.ErrInvalid) {
			return err
		}
		c.log.Info("not accepted", "context_id", t.id, "message", m.id, "err", err)
		if err := rest.For(ctx, again); err != nil {
			return err
		}
	}
}

// ask reads the log for the answers to messages that were accepted some time ago.
func (c *client) ask(ctx context.Context, t talk, open map[string]message, since map[string]time.Time) []seen {
	waiting := false
	for id := range open {
		waiting = waiting || time.Since(since[id]) > askEvery
	}
	if !waiting {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conv, err := storage.Load(ctx, c.store, "", t.id)
	if err != nil {
		c.log.Info("the log cannot be read", "context_id", t.id, "err", err)
		return nil
	}
	var found []seen
	for id := range open {
		if m, ok := conv.AnswerOf(t.user(), id); ok {
			found = append(found, seen{time.Now(), id, m.ID, transport.Text(m.Parts), "log"})
		}
	}
	return found
}
