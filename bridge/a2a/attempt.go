package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/internal/webhook"
)

// push pushes what there is now. The pause is for lineFailed. An error is the store's.
func (l *line) push(ctx context.Context) (state lineState, pause time.Duration, err error) {
	if is, err := l.news(ctx); !is {
		return lineWaits, 0, err
	}
	t, err := l.target(ctx)
	if t == nil {
		return lineDone, 0, err
	}
	to, err := url.Parse(t.URL)
	if err != nil {
		to = &url.URL{}
	}
	o := l.s.outbox
	type way struct {
		lanes       *lanes
		key, person string
		most        int
	}
	user, host := l.c.user(), webhook.HostOf(to)
	own, person := way{&o.own, user + " " + host, "", mostOwnHost}, way{&o.users, user, "", mostPerUser}
	at, all := way{&o.hosts, host, user, mostPerHost}, way{&o.posts, "", user, mostPosts}
	ways := []way{own, person, at, all}
	if l.fails > 0 { // who takes nothing leaves room for others
		half := func(of way) way { return way{of.lanes, of.key + " failing", of.person, of.most / 2} }
		ways = []way{own, half(person), person, half(at), at, half(all), all}
	}
	for _, of := range ways {
		leave, err := of.lanes.enter(ctx, of.key, of.person, of.most)
		if err != nil {
			return lineDone, 0, err
		}
		defer leave()
	}
	return l.deliver(ctx)
}

// target returns the config as it is now; nil when it is there no more, is over, or its client may not ask any more.
func (l *line) target(ctx context.Context) (*target, error) {
	n, err := l.s.pushNote(ctx, l.key)
	if err != nil {
		return nil, err
	}
	t := n.target(l.id)
	if t == nil || !t.open() {
		return nil, nil
	}
	if holds := l.s.outbox.push.Holds; t.By != "" && holds != nil && !holds(t.By, t.Made) {
		return nil, l.s.dropTarget(ctx, l.c, l.task, l.id, t.Made)
	}
	return t, nil
}

// deliver is push, when its turn has come.
func (l *line) deliver(ctx context.Context) (state lineState, pause time.Duration, err error) {
	t, err := l.target(ctx)
	if t == nil {
		return lineDone, 0, err
	}
	r, err := l.s.find(ctx, l.c, l.task)
	if errors.Is(err, a2a.ErrTaskNotFound) {
		if l.c.Clock().Sub(t.Made) < absentFor || time.Since(l.began) < absentLeast { // its message may be on its way
			return lineWaits, 0, nil
		}
		return lineDone, 0, l.s.dropTarget(ctx, l.c, l.task, l.id, time.Time{}) // it never came, or was erased
	}
	if err != nil {
		return lineWaits, 0, err
	}
	all, unread := l.s.notices(ctx, l.c, r, t.Next)
	for i := range all {
		n := &all[i]
		if i > 0 { // its client may have changed it meanwhile
			if t, err = l.target(ctx); t == nil {
				return lineDone, 0, err
			}
		}
		if n.at.before(t.Next) { // another process has pushed it
			continue
		}
		body, err := l.s.body(ctx, l.c, r, n, t.Old)
		if err != nil {
			return lineWaits, 0, err
		}
		if body != nil {
			if !l.s.outbox.push.Leads() {
				return lineWaits, 0, errors.New("another process does it now")
			}
			if err := l.post(ctx, t, n, body); err != nil {
				return l.failed(ctx, t, err)
			}
		}
		if err := l.taken(ctx, n); err != nil {
			return lineWaits, 0, err
		}
	}
	if unread != nil {
		return lineWaits, 0, unread
	}
	if r.state().Terminal() {
		return lineDone, 0, l.ended(ctx)
	}
	l.version = r.version
	return lineWaits, 0, nil
}

// post sends a notice to the receiver.
func (l *line) post(ctx context.Context, t *target, n *notice, body []byte) error {
	h := http.Header{
		"Content-Type": {"application/a2a+json"}, "A2a-Version": {string(a2a.Version)}, "Idempotency-Key": {n.id(l.task, t.ID)},
	}
	if t.Old {
		h.Set("Content-Type", "application/json")
		h.Set("A2a-Version", oldVersion)
	}
	if t.Token != "" {
		h.Set("A2A-Notification-Token", t.Token)
	}
	if t.Scheme != "" && t.Credentials != "" {
		h.Set("Authorization", t.Scheme+" "+t.Credentials)
	}
	return l.s.outbox.web.Post(ctx, t.URL, h, body)
}

// taken takes note that the receiver has a notice.
func (l *line) taken(ctx context.Context, n *notice) error {
	l.fails = 0
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), slowPost)
	defer end()
	next := spot{n.at.Version, n.at.Part + 1}
	return l.change(ctx, func(t *target) bool {
		if !t.Next.before(next) {
			return false
		}
		t.Next, t.Failing = next, time.Time{}
		if n.last {
			t.Ended = l.c.Clock().UTC()
		}
		return true
	})
}

// ended takes note that nothing is left to be pushed.
func (l *line) ended(ctx context.Context) error {
	return l.change(ctx, func(t *target) bool {
		if !t.Ended.IsZero() {
			return false
		}
		t.Ended = l.c.Clock().UTC()
		return true
	})
}

// change changes what is stored of the config, if it is there.
func (l *line) change(ctx context.Context, change func(*target) bool) error {
	_, err := l.s.changePush(ctx, l.key, false, func(n *pushNote) (bool, error) {
		t := n.target(l.id)
		return t != nil && change(t), nil
	})
	return err
}

// failed takes note of an attempt that failed, and returns how long to wait. A receiver that has taken nothing for long is given up.
func (l *line) failed(ctx context.Context, t *target, why error) (lineState, time.Duration, error) {
	var of *webhook.Error
	if !errors.As(why, &of) {
		return lineFailed, tryFirst, why // ctx has ended
	}
	now := l.c.Clock().UTC()
	host := ""
	if to, err := url.Parse(t.URL); err == nil {
		host = to.Host
	}
	log := l.s.cfg.Logger.With("task_id", string(l.task), "context_id", l.c.place(l.task), "host", host, "err", of.Why)
	if of.Gone || !t.Failing.IsZero() && now.Sub(t.Failing) >= giveUp && l.fails >= giveUpLeast {
		err := l.change(ctx, func(is *target) bool {
			is.GivenUp = now
			return is.Made.Equal(t.Made) // or its client has made it anew
		})
		if err != nil {
			return lineWaits, 0, err
		}
		log.Warn("a receiver of push notifications is given up: its client gets no more until it makes the config again", "since", t.Failing)
		return lineDone, 0, nil
	}
	if t.Failing.IsZero() {
		log.Info("a receiver takes no push notifications: it is tried again", "for", fmt.Sprint(giveUp))
		if err := l.change(ctx, func(is *target) bool {
			is.Failing = now
			return is.Made.Equal(t.Made)
		}); err != nil {
			return lineWaits, 0, err
		}
	}
	pause := max(pauseAfter(l.fails, l.s.outbox.push.Random()), min(of.After, tryMost))
	l.fails++
	return lineFailed, pause, nil
}

// pauseAfter returns the pause after some attempts failed and then one more: from half of a time to all of it, which doubles.
func pauseAfter(fails int, random float64) time.Duration {
	d := tryMost
	if fails < 20 {
		d = min(tryFirst<<fails, tryMost)
	}
	return d/2 + time.Duration(random*float64(d/2))
}
