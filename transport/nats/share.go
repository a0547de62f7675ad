package nats

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// What one agent or person may have of a server with keys, over all connections. An agent has one connection for each of its instances.
const (
	maxEach       = 64        // connections
	maxEachSubs   = 512       // subscriptions: what is sent to one of them has a copy for each
	maxEachUnread = 64 << 20  // bytes that were sent to it and not read
	maxEachHeld   = 128 << 20 // the same, between two looks: its connections have equal parts of it, at least leastPending and at most maxPending
	leastPending  = 5 << 20   // above transport.MaxPayload: a connection that gets no event is of no use
	eachPace      = 64 << 20  // bytes a second that are read of what it sends, each message taken for messageCost more
	eachBurst     = 16 << 20  // and so many at once
	messageCost   = 1 << 10
)

// shares knows what agents and people take of a server. Each look at its connections is compared with the one before.
type shares struct {
	pend func(cid uint64, most int)                    // sets how much may wait for a connection
	pace func(ip string, port int, pace *rate.Limiter) // sets how fast a connection is read

	who   map[string]string        // by key: the name of an agent or a person; "" for anybody else, who has no bounds
	seen  map[uint64]seen          // by connection
	paces map[string]*rate.Limiter // by name, of what is sent: also of who has gone, and comes again
}

// seen is a connection as it was at the last look.
type seen struct {
	msgs    int64 // that it had sent
	pending int   // how much may wait for it
}

// tooMuch returns the connections that take too much: what somebody has beyond their number, or of subscriptions, what is not read; and when all
// together do not read what they are sent, those with the most. unread is how much that is. Who sends too much is read more slowly.
func (s *shares) tooMuch(conns []*server.ConnInfo, now time.Time) (cids []uint64, unread int) {
	type share struct{ conns, subs, unread int }
	all := map[string]*share{}
	was, paces := s.seen, s.paces
	s.seen, s.paces = map[uint64]seen{}, map[string]*rate.Limiter{}
	for name, pace := range paces {
		if pace.TokensAt(now) < eachBurst {
			s.paces[name] = pace
		}
	}
	var open []*server.ConnInfo
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return a.Start.Compare(b.Start) }) // who came first stays
	for _, c := range conns {
		is, known := was[c.Cid]
		own := c.IP == "" // in this process
		name := s.name(c)
		switch {
		case own && c.AuthorizedUser != "" && !known:
			is.pending = ownPending
			s.pend(c.Cid, is.pending)
		case !own && name == "" && c.AuthorizedUser != "" && !known:
			s.pace(c.IP, c.Port, nil)
		}
		if c.AuthorizedUser != "" {
			s.seen[c.Cid] = is
		}
		if own {
			continue
		}
		if name == "" {
			open, unread = append(open, c), unread+c.Pending
			continue
		}
		has := all[name]
		if has == nil {
			has = &share{}
			all[name] = has
			if s.paces[name] = paces[name]; s.paces[name] == nil {
				s.paces[name] = rate.NewLimiter(eachPace, eachBurst)
			}
		}
		if !known {
			s.pace(c.IP, c.Port, s.paces[name])
		}
		spend(s.paces[name], now, int(c.InMsgs-is.msgs)*messageCost)
		is.msgs = c.InMsgs
		s.seen[c.Cid] = is
		if has.conns >= maxEach || has.subs+int(c.NumSubs) > maxEachSubs {
			cids = append(cids, c.Cid)
			continue
		}
		has.conns, has.subs, has.unread = has.conns+1, has.subs+int(c.NumSubs), has.unread+c.Pending
		open, unread = append(open, c), unread+c.Pending
	}
	slices.SortFunc(open, func(a, b *server.ConnInfo) int { return cmp.Compare(b.Pending, a.Pending) })
	left := unread
	for _, c := range open {
		has := all[s.name(c)]
		if left > maxUnread && c.Pending > 0 || has != nil && has.unread > maxEachUnread {
			cids, left = append(cids, c.Cid), left-c.Pending
			if has != nil {
				has.unread -= c.Pending
			}
			continue
		}
		if has == nil {
			continue
		}
		is := s.seen[c.Cid]
		if most := min(max(maxEachHeld/has.conns, leastPending), maxPending); most != is.pending {
			s.pend(c.Cid, most)
			is.pending = most
			s.seen[c.Cid] = is
		}
	}
	return cids, unread
}

// name returns whose a connection is, if it is an agent's or a person's.
func (s *shares) name(c *server.ConnInfo) string {
	if c.AuthorizedUser == "" {
		return ""
	}
	name, known := s.who[c.AuthorizedUser]
	if !known {
		if i := auth.Of(c.JWT); i.Limited() {
			name = auth.Gateway(i)
		}
		if len(s.who) >= maxBacklogs || s.who == nil {
			s.who = map[string]string{}
		}
		s.who[c.AuthorizedUser] = name
	}
	return name
}
