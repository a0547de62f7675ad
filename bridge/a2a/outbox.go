package a2a

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
	"github.com/cortex-orchestrator/cortex/internal/rest"
	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

const (
	outboxEach = time.Second // configs that another process has stored are found so often
	outboxPart = 50          // looking for them takes one part in so many of the time at most
	mostLines  = 4096        // configs that are watched at once

	endedFor    = time.Hour      // a config whose task is over, and which got everything, is kept so long
	mostEnded   = 256            // of a person
	givenUpFor  = 24 * time.Hour // and one that was given up; Trouble says so
	absentFor   = 24 * time.Hour // one whose task is not there, if that was looked for so long:
	absentLeast = time.Hour
	toldOutbox  = time.Minute // between two warnings that notes cannot be read
	mostPosts   = 32          // notifications on their way
	mostPerUser = 8
	mostPerHost = 8
	mostOwnHost = 4 // of a person, to a host
)

// outbox pushes notifications. What has to go out is in the log, and what has gone out in the notes of the configs, so nothing of it is lost with the
// process: it has no queue.
type outbox struct {
	notes  storage.Notes
	web    *webhook.Client
	push   Push
	counts pushCounts
	nudges chan string // keys of notes that were changed in this process

	own, users, hosts, posts lanes // of what is on its way, by person and host, by person, by host, and all

	mu      sync.Mutex
	lines   map[lineKey]*line // that run
	of      map[string]int    // how many of a person, without those that end
	ending  int               // lines that make room
	trouble []string
}

type lineKey struct{ note, id string }

// newOutbox returns the outbox of a server, or nil when it has none.
func newOutbox(cfg *Config) *outbox {
	notes, ok := cfg.Store.(storage.Notes)
	if cfg.Push == nil || !ok {
		return nil
	}
	o := &outbox{notes: notes, push: *cfg.Push, nudges: make(chan string, 256), lines: map[lineKey]*line{}, of: map[string]int{}}
	o.web = webhook.New(&webhook.Options{Hosts: o.push.Hosts, Timeout: o.push.Timeout, Agent: "cortex/" + cfg.Version})
	if o.push.Leads == nil {
		o.push.Leads = func() bool { return true }
	}
	if o.push.Rest == nil {
		o.push.Rest = rest.For
	}
	if o.push.Random == nil {
		o.push.Random = rand.Float64 //nolint:gosec // for the length of a pause
	}
	return o
}

// nudge has the outbox look at a note at once.
func (o *outbox) nudge(key string) {
	select {
	case o.nudges <- key:
	default: // it is found when all are looked at
	}
}

// Trouble returns a line for people about the notifications that do not get to their receivers; nil when all do. Only the process that delivers them
// knows.
func (s *Server) Trouble() []string {
	if s.outbox == nil {
		return nil
	}
	s.outbox.mu.Lock()
	defer s.outbox.mu.Unlock()
	return s.outbox.trouble
}

// Push delivers push notifications, while this process leads, until ctx ends; then it returns nil. It returns at once when there are none.
//
// A receiver gets the events of a task in their order, each at least once, also when the process is killed meanwhile: it is told again what it may not
// have got, with the same Idempotency-Key. One that takes nothing is tried for a day, with growing pauses, and then given up.
func (s *Server) Push(ctx context.Context) error {
	o := s.outbox
	if o == nil {
		return nil
	}
	defer o.web.Close()
	var told time.Time
	for ctx.Err() == nil {
		if !o.push.Leads() {
			_ = rest.For(ctx, outboxEach)
			continue
		}
		leading, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		for leading.Err() == nil && o.push.Leads() {
			began := time.Now()
			if err := s.sweep(leading, &running); err != nil && ctx.Err() == nil && time.Since(told) > toldOutbox {
				told = time.Now()
				s.cfg.Logger.Warn("push notification configs cannot be read", "err", err)
			}
			s.heed(leading, &running, max(outboxEach, outboxPart*time.Since(began)))
		}
		stop()
		running.Wait()
		o.setTrouble(nil)
	}
	return nil
}

// heed begins what is nudged, for a time.
func (s *Server) heed(ctx context.Context, running *sync.WaitGroup, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case key := <-s.outbox.nudges:
			if n, err := s.pushNote(ctx, key); err == nil { // or else with all
				s.open(ctx, running, n)
				s.outbox.end(func(at lineKey, _ *line) bool { return at.note == key && n.target(at.id) == nil })
			}
		}
	}
}

// sweep looks at all configs: it begins those that are new, ends those that are there no more, and removes those that are of no use.
func (s *Server) sweep(ctx context.Context, running *sync.WaitGroup) error {
	o, now := s.outbox, s.cfg.Client.Clock()
	began := time.Now()
	var all []*pushNote
	for of, err := range o.notes.Notes(ctx, s.cfg.Client.Tenant, storage.NotePush) {
		if err != nil {
			return err
		}
		all = append(all, readPush(of))
	}
	o.counts.set(all, now)
	there := map[lineKey]bool{}
	for _, n := range all {
		for _, t := range n.Targets {
			there[lineKey{n.key, t.ID}] = true
		}
	}
	o.end(func(at lineKey, l *line) bool { return !there[at] && l.began.Before(began) })
	slices.SortFunc(all, func(a, b *pushNote) int { return a.Changed.Compare(b.Changed) }) // who waits longest comes first
	failing, givenUp, open := 0, 0, 0
	ended := map[string][]time.Time{}
	for _, n := range all {
		s.open(ctx, running, n)
		for _, t := range n.Targets {
			switch {
			case !t.GivenUp.IsZero():
				givenUp++
			case !t.Ended.IsZero():
				ended[n.User] = append(ended[n.User], t.Ended)
			case !t.Failing.IsZero():
				failing++
			}
			if t.open() {
				open++
			}
		}
	}
	var trouble []string
	for _, of := range []struct {
		n   int
		why string
	}{
		{failing, "receivers that take none now, and are tried again"},
		{givenUp, "receivers that were given up in the last day, since they took none for a day"},
		{open - mostLines, "receivers that wait until other tasks are over: there are too many"},
	} {
		if of.n > 0 {
			trouble = append(trouble, fmt.Sprintf("push notifications: %d: %s", of.n, of.why))
		}
	}
	o.setTrouble(trouble)
	oldest := map[string]time.Time{} // of a person's configs that are over, what ended before is removed
	for user, times := range ended {
		oldest[user] = now.Add(-endedFor)
		slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
		if len(times) > mostEnded && times[mostEnded].After(oldest[user]) {
			oldest[user] = times[mostEnded]
		}
	}
	var errs []error
	for _, n := range all {
		if err := s.tidy(ctx, n, now, oldest[n.User]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (o *outbox) setTrouble(all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trouble = all
}

// open begins what a note asks for, unless it runs. What runs goes on at once if it waits for a receiver that has changed.
func (s *Server) open(ctx context.Context, running *sync.WaitGroup, n *pushNote) {
	o := s.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range n.Targets {
		at := lineKey{n.key, t.ID}
		if l := o.lines[at]; l != nil {
			l.look(t)
			continue
		}
		if !t.open() || ctx.Err() != nil || !o.admits(n.User) {
			continue
		}
		l := s.newLine(n, t)
		alive, stop := context.WithCancel(ctx)
		l.stop = stop
		o.begin(at, l)
		running.Go(func() {
			defer stop()
			l.run(alive)
			o.over(at, l)
		})
	}
}

// admits reports whether another line of a person may begin. Where there are as many as there may be, one of the person with most ends for it, and goes on
// when there is room: tasks may be open for ever, and those of a few would have all others wait. o.mu is held.
func (o *outbox) admits(user string) bool {
	if len(o.lines)-o.ending < mostLines {
		return true
	}
	most := user
	for of, n := range o.of {
		if n > o.of[most] {
			most = of
		}
	}
	if o.of[most] <= o.of[user]+1 {
		return false
	}
	var newest *line
	for _, l := range o.lines {
		if l.c.user() == most && !l.ending && (newest == nil || l.began.After(newest.began)) {
			newest = l
		}
	}
	o.leave(newest)
	newest.ending = true
	o.ending++
	newest.stop()
	return true
}

// begin counts a line. o.mu is held.
func (o *outbox) begin(at lineKey, l *line) {
	o.lines[at] = l
	o.of[l.c.user()]++
}

// over takes a line out that has ended.
func (o *outbox) over(at lineKey, l *line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.lines, at)
	if l.ending {
		o.ending--
	} else {
		o.leave(l)
	}
}

// leave counts a line no more for its person. o.mu is held.
func (o *outbox) leave(l *line) {
	user := l.c.user()
	if o.of[user]--; o.of[user] == 0 {
		delete(o.of, user)
	}
}

// end stops lines.
func (o *outbox) end(which func(lineKey, *line) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at, l := range o.lines {
		if which(at, l) {
			l.stop()
		}
	}
}

// tidy removes what is of no use any more of a note. What of a person ended before a time is.
func (s *Server) tidy(ctx context.Context, n *pushNote, now, before time.Time) error {
	useless := func(t *target) bool {
		return !t.Ended.IsZero() && t.Ended.Before(before) || !t.GivenUp.IsZero() && now.Sub(t.GivenUp) > givenUpFor
	}
	if len(n.Targets) > 0 && !slices.ContainsFunc(n.Targets, useless) {
		return nil
	}
	_, err := s.changePush(ctx, n.key, true, func(n *pushNote) (bool, error) {
		left := slices.DeleteFunc(slices.Clone(n.Targets), useless)
		some := len(left) < len(n.Targets)
		n.Targets = left
		return some || len(left) == 0 && n.version > 0, nil // some of an older version have none, as has one that nobody can read
	})
	return err
}

// pushCaller returns who has made the configs of a note.
func (s *Server) pushCaller(n *pushNote) *caller {
	own := *s.cfg.Client
	own.User = n.User
	return &caller{Client: &own, agent: n.Agent}
}
