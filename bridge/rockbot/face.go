package rockbot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
	"github.com/cortex-orchestrator/cortex/transport"
)

// maxFaces bounds how many agents RockBot is shown.
const maxFaces = 512

// inPrefetch is how many tasks of one agent are taken from RabbitMQ at a time. Of each at most maxBody bytes are kept.
const inPrefetch = 4

// goodbyeTime is for all farewells.
const goodbyeTime = 2 * time.Second

// face is an agent of Cortex, or Cortex itself, as RockBot sees it.
type face struct {
	name  string // for RockBot
	agent string // its id; "": Cortex itself
	card  *card
	is    *a2a.AgentCard // nil for Cortex itself

	shown *card     // what RockBot was told; nil: nothing, or that it has left
	at    time.Time // when
	on    *session  // where its tasks are taken
}

// faces are what RockBot sees of Cortex. They are safe for concurrent use.
type faces struct {
	b *bridge

	turn *semaphore.Weighted // of who shows anything

	mu   sync.Mutex
	by   map[string]*face // by name; whoever was there once still gets its tasks, and answers that it is away
	told map[string]bool
}

// owns reports whether this is a name of Cortex.
func (fs *faces) owns(name string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for is := range fs.by {
		if strings.EqualFold(is, name) {
			return true
		}
	}
	return false
}

// wanted returns what RockBot is to see now, by name.
func (fs *faces) wanted() map[string]*face {
	all := map[string]*face{}
	if fs.isShown(transport.Cortex) {
		all[fs.b.o.name] = &face{name: fs.b.o.name, card: ownCard(fs.b.o.name)}
	}
	if slices.Equal(fs.b.o.announce, []string{transport.Cortex}) {
		return all
	}
	for _, c := range fs.b.at.Agents() {
		id, err := transport.AgentID(c.Name)
		if err != nil || !fs.isShown(id) || fs.b.guests.known(id) != nil || !fs.has(id) && !fs.b.names.Announced(id) {
			continue // RockBot's own agents are not shown to it, those included that a process has announced which led before; what is shown may be silent for a while
		}
		switch err := checkName(id); {
		case err != nil:
			fs.tell(id, err)
		case strings.EqualFold(id, fs.b.o.name):
			fs.tell(id, errors.New("it has the name of Cortex itself there: see --rockbot-name"))
		case fs.b.guests.named(id) != nil:
			fs.tell(id, errors.New("RockBot has an agent of this name"))
		case len(all) < maxFaces:
			all[id] = &face{name: id, agent: id, card: shownCard(c, id), is: c}
		}
	}
	return all
}

// has reports whether an agent is shown to RockBot.
func (fs *faces) has(id string) bool { f := fs.by[id]; return f != nil && f.agent == id }

func (fs *faces) isShown(id string) bool {
	return slices.ContainsFunc(fs.b.o.announce, func(glob string) bool {
		ok, err := path.Match(glob, id)
		return ok && err == nil
	})
}

// tell logs once why an agent is not shown.
func (fs *faces) tell(id string, why error) {
	fs.mu.Lock()
	known := fs.told[id] || len(fs.told) >= maxFaces
	if !known {
		fs.told[id] = true
	}
	fs.mu.Unlock()
	if !known {
		fs.b.at.Logger.Warn("an agent is not announced to RockBot", "agent", id, "err", why)
	}
}

// refresh takes over what is to be seen now.
func (fs *faces) refresh() {
	all := fs.wanted()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for name, f := range all {
		if old := fs.by[name]; old != nil {
			old.card, old.is = f.card, f.is
		} else {
			fs.by[name] = f
		}
	}
	for name, f := range fs.by {
		if all[name] == nil {
			f.card = nil
		}
	}
}

func (fs *faces) all() []*face {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.SortedFunc(maps.Values(fs.by), func(a, b *face) int { return strings.Compare(a.name, b.name) })
}

// attach takes the tasks of all that is seen, on a connection. A queue that cannot be used is left out, and tried again with the next card.
func (fs *faces) attach(ctx context.Context, s *session) {
	if fs.turn.Acquire(ctx, 1) != nil {
		return
	}
	defer fs.turn.Release(1)
	for _, f := range fs.all() {
		if f.on == s || s.why() != nil {
			continue
		}
		err := fs.b.take(ctx, s, f)
		if err == nil {
			f.on = s
			continue
		}
		fs.tell(f.name, fmt.Errorf("its tasks cannot be taken: %s", shorten.Line(fs.b.line.clean(err), 300)))
	}
}

// run shows what there is to be seen, again and again, until ctx ends.
func (fs *faces) run(ctx context.Context) error {
	for {
		fs.refresh()
		if s := fs.b.line.now(); s != nil {
			fs.attach(ctx, s)
			fs.show(ctx, s)
		}
		if err := rest.For(ctx, fs.b.times.change); err != nil {
			return err
		}
	}
}

// show announces what has changed, or was announced a while ago, or on another connection.
func (fs *faces) show(ctx context.Context, s *session) {
	for _, f := range fs.all() {
		fs.mu.Lock()
		card, shown, at := f.card, f.shown, f.at
		fs.mu.Unlock()
		switch {
		case card == nil && shown == nil, f.on != s:
			continue
		case card == nil:
			gone := *shown
			gone.IsDeregistering = true
			card = &gone
		case reflect.DeepEqual(card, shown) && time.Since(at) < fs.b.times.announce:
			continue
		}
		if !fs.announce(ctx, s, card) {
			return
		}
		fs.mu.Lock()
		if f.shown, f.at = card, time.Now(); card.IsDeregistering {
			f.shown = nil
		}
		fs.mu.Unlock()
	}
}

// announce publishes a card. Perhaps nobody listens.
func (fs *faces) announce(ctx context.Context, s *session, c *card) bool {
	ctx, end := context.WithTimeout(ctx, goodbyeTime)
	defer end()
	err := s.publish(ctx, &letter{topic: announceTopic, kind: typeCard, source: c.AgentName, body: c})
	return err == nil || errors.Is(err, errUnrouted)
}

// goodbye tells RockBot that all have left.
func (fs *faces) goodbye(ctx context.Context) {
	s := fs.b.line.now()
	if s == nil {
		return
	}
	for _, f := range fs.all() {
		fs.mu.Lock()
		shown := f.shown
		f.shown, f.card = nil, nil
		fs.mu.Unlock()
		if shown == nil {
			continue
		}
		gone := *shown
		gone.IsDeregistering = true
		if !fs.announce(ctx, s, &gone) {
			return
		}
	}
}

// take takes an agent's tasks from RabbitMQ, and what is said of them otherwise.
func (b *bridge) take(ctx context.Context, s *session, f *face) error {
	q := taskQueueOf(f.name)
	for _, own := range []*queue{b.deadQueue(q.keys[0], cancelTopic+f.name), b.cancelQueue(cancelTopic + f.name)} {
		ch, err := s.conn.Channel()
		if err != nil {
			return err
		}
		_, err = s.declare(ch, own)
		_ = ch.Close()
		if err != nil {
			return err
		}
	}
	return s.consume(ctx, q, func(d *amqp.Delivery) {
		for b.pace.Admit("user:"+hostName, min(len(d.Body), maxBody)) != nil { // the next ones wait behind it, in their order
			if rest.For(ctx, b.times.pause) != nil {
				return // RabbitMQ keeps it
			}
		}
		s.wg.Go(func() { b.asks.request(ctx, d, f) })
	})
}
