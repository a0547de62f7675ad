package memory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cortex-orchestrator/cortex/transport"
)

const (
	maxCards = 100_000 // retained cards of one tenant
	minCards = 4096    // how many events a subscriber may be behind before obsolete changes are dropped
)

// board has a tenant's cards. Guarded by w.mu.
type board struct {
	w      *world
	tenant string
	cards  map[cardKey]*posted
	feeds  map[*feed]struct{}
}

type cardKey struct{ agent, instance string }

// posted is a retained card.
type posted struct {
	r      *record
	expiry *alarm // nil: never
}

func (w *world) board(tenant string) *board {
	b := w.boards[tenant]
	if b == nil {
		b = &board{w: w, tenant: tenant, cards: map[cardKey]*posted{}, feeds: map[*feed]struct{}{}}
		w.boards[tenant] = b
	}
	return b
}

// tidy removes b from the world when it is empty.
func (b *board) tidy() {
	if len(b.cards) == 0 && len(b.feeds) == 0 {
		delete(b.w.boards, b.tenant)
	}
}

// announce publishes a Card or an AgentEvent on the cards topic.
func (b *board) announce(r *record, payload transport.Payload) error {
	c, ok := payload.(*transport.Card)
	if !ok { // an AgentEvent: for present subscribers
		b.tell(r)
		b.tidy()
		return nil
	}
	key := cardKey{c.AgentID, c.Instance}
	r.card, r.gone = key, c.Gone != ""
	old := b.cards[key]
	if c.Gone != "" {
		if old != nil {
			b.remove(key, r)
		}
		b.tidy()
		return nil
	}
	if old == nil && len(b.cards) >= maxCards {
		return fmt.Errorf("%w: %d agent instances are announced", transport.ErrUnavailable, len(b.cards))
	}
	if old != nil {
		b.w.agenda.remove(old.expiry)
	}
	p := &posted{r: r}
	if c.TTL > 0 {
		p.expiry = b.w.agenda.add(time.Now().Add(c.TTL), func() { b.expire(key, r.envelope) })
	}
	b.cards[key] = p
	b.tell(r)
	return nil
}

// remove removes a card and announces that with r.
func (b *board) remove(key cardKey, r *record) {
	b.w.agenda.remove(b.cards[key].expiry)
	delete(b.cards, key)
	b.tell(r)
}

// expire removes the card that the event last announced, when its TTL has passed.
func (b *board) expire(key cardKey, last transport.Event) {
	r, err := encode(&transport.Event{
		ID:      uuid.NewSHA1(uuid.NameSpaceOID, []byte("expired "+last.ID)).String(),
		Time:    time.Now(),
		From:    last.From,
		Tenant:  last.Tenant,
		Payload: &transport.Card{AgentID: key.agent, Instance: key.instance, Gone: transport.GoneExpired},
	})
	if err != nil {
		panic(err) // a card without content can always be encoded
	}
	r.card, r.gone = key, true
	b.remove(key, r)
	b.tidy()
}

func (b *board) tell(r *record) {
	for f := range b.feeds {
		f.push(r)
	}
}

// subscribe sends f every card, Synced, and every change from now on.
func (b *board) subscribe(f *feed) {
	var all []*record
	for _, p := range b.cards {
		all = append(all, p.r)
	}
	slices.SortFunc(all, func(x, y *record) int {
		if c := strings.Compare(x.card.agent, y.card.agent); c != 0 {
			return c
		}
		return strings.Compare(x.card.instance, y.card.instance)
	})
	f.limit = max(minCards, 2*len(all))
	for _, r := range all {
		f.push(r)
	}
	synced, err := encode(&transport.Event{
		ID: uuid.NewString(), Time: time.Now(), From: transport.Cortex, Tenant: b.tenant, Payload: &transport.Synced{},
	})
	if err != nil {
		panic(err) // it has no content
	}
	f.push(synced)
	b.feeds[f] = struct{}{}
}

var syncedKind, _ = transport.PayloadKind(&transport.Synced{})

// condense bounds the pending events of a slow subscriber of cards: it keeps only the latest of each instance, announcements before Synced, goodbyes
// after it. AgentEvents are dropped.
func (f *feed) condense() {
	if len(f.pending) <= f.limit {
		return
	}
	newest := map[cardKey]*record{}
	for _, r := range f.pending {
		newest[r.card] = r
	}
	var cards, synced, gone []*record
	for _, r := range f.pending {
		switch {
		case r.card == cardKey{}:
			if r.kind == syncedKind {
				synced = append(synced, r)
			}
		case newest[r.card] != r: // obsolete
		case r.gone:
			gone = append(gone, r)
		default:
			cards = append(cards, r)
		}
	}
	gone = gone[max(0, len(gone)-maxCards):]
	f.pending = slices.Concat(cards, synced, gone)
	f.limit = max(minCards, 2*len(f.pending))
}
