package nats

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

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
	personMessage = 16 << 10  // bytes that a message of a person is taken for: so many come as twice what a gateway takes in a second
	agentMessage  = 3 << 10   // the same of an agent
)

// shares knows what agents and people take of a server. Each look at its connections is compared with the one before.
type shares struct {
	keyed bool // the server knows who connects

	pend func(cid uint64, most int)         // sets how much may wait for a connection
	pace func(c *server.ConnInfo, is *pace) // sets how a connection is read; nil: as fast as goes

	who   map[string]user   // by key
	keys  map[uint64]string // by connection
	seen  map[uint64]int    // by connection: how much may wait for it
	own   []uint64          // connections of this process that were there at the last look
	paces map[string]*pace  // by name: also of who has gone, and comes again
}

// user is whose a key is.
type user struct {
	name    string // of an agent or a person; "" for anybody else, who has no bounds
	message int    // bytes that a message is taken for beside its own
}

// tooMuch returns the connections that take too much: what somebody has beyond their number, or of subscriptions, what is not read; and when all
// together do not read what they are sent, those with the most. unread is how much that is. Who sends too much is read more slowly.
func (s *shares) tooMuch(conns []*server.ConnInfo, now time.Time) (cids []uint64, unread int) {
	type share struct{ conns, subs, unread int }
	all := map[string]*share{}
	was, paces := s.seen, s.paces
	s.seen, s.own, s.paces = map[uint64]int{}, nil, map[string]*pace{}
	for name, is := range paces {
		if is.bytes.TokensAt(now) < eachBurst || is.crowded.TokensAt(now) < crowdBurst {
			s.paces[name] = is
		}
	}
	var open []*server.ConnInfo
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return a.Start.Compare(b.Start) }) // who came first stays
	for _, c := range conns {
		most, known := was[c.Cid]
		own := c.IP == "" // in this process
		by := s.user(c)
		name := by.name
		switch {
		case own && c.AuthorizedUser != "" && !known:
			most = ownPending
			s.pend(c.Cid, most)
		case !own && name == "" && c.AuthorizedUser != "" && !known:
			s.pace(c, nil)
		}
		if c.AuthorizedUser != "" {
			s.seen[c.Cid] = most
		}
		if own {
			s.own = append(s.own, c.Cid)
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
				s.paces[name] = newEach(by.message)
			}
		}
		if !known {
			s.pace(c, s.paces[name])
		}
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
		has := all[s.user(c).name]
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
		if most := min(max(maxEachHeld/has.conns, leastPending), maxPending); most != s.seen[c.Cid] {
			s.pend(c.Cid, most)
			s.seen[c.Cid] = most
		}
	}
	return cids, unread
}

// identify completes connections with whose they are, which is asked for once: the server checks the signature of all keys that it is asked for.
func (s *shares) identify(conns []*server.ConnInfo, ask func(cid uint64) *server.ConnInfo) {
	keys, who := s.keys, s.who
	s.keys, s.who = make(map[uint64]string, len(conns)), map[string]user{}
	for _, c := range conns {
		key := keys[c.Cid]
		if is, known := who[key]; known {
			s.who[key] = is
		} else if asked := ask(c.Cid); asked != nil {
			key, c.JWT = asked.AuthorizedUser, asked.JWT
		}
		if c.AuthorizedUser = key; key != "" {
			s.keys[c.Cid] = key
			s.user(c)
		}
	}
}

// user returns whose a connection is.
func (s *shares) user(c *server.ConnInfo) user {
	if c.AuthorizedUser == "" {
		return user{}
	}
	is, known := s.who[c.AuthorizedUser]
	if !known {
		if i := auth.Of(c.JWT); i.Limited() {
			is = user{auth.Gateway(i), personMessage}
			if i.Role == auth.Agent {
				is.message = agentMessage
			}
		}
		s.who[c.AuthorizedUser] = is
	}
	return is
}
