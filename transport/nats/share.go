package nats

import (
	"cmp"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/cortex-orchestrator/cortex/transport/nats/auth"
)

// Limits of one agent or person on a server with keys, over all its connections. An agent has one connection for each of its instances.
const (
	maxEach       = 64        // connections
	maxEachSubs   = 512       // subscriptions; each gets its own copy of a message
	maxEachUnread = 64 << 20  // bytes that were sent to it and that it has not read
	maxEachHeld   = 128 << 20 // the same between two looks: divided equally among its connections, each at least leastPending and at most maxPending
	leastPending  = 5 << 20   // above transport.MaxPayload, or the connection could not receive every event
	eachPace      = 64 << 20  // bytes a second that are read from it; each message counts for additional bytes, see below
	eachBurst     = 16 << 20  // bytes at once
	personMessage = 16 << 10  // bytes that each message of a person counts for in addition: no more than about twice as many arrive as a gateway handles
	agentMessage  = 3 << 10   // likewise, of an agent
)

// shares bounds what agents and people use of a server. It compares each look at the connections with the previous one.
type shares struct {
	keyed bool // the server knows who connects

	pend func(cid uint64, most int)         // sets how many bytes may wait for a connection
	pace func(c *server.ConnInfo, is *pace) // sets the pace at which a connection is read; nil: unlimited

	who   map[string]user   // by key
	keys  map[uint64]string // by connection
	seen  map[uint64]int    // by connection: how many bytes may wait for it
	own   []uint64          // connections of this process at the last look
	paces map[string]*pace  // by name, including those that have disconnected and may return
}

// user is the owner of a key.
type user struct {
	name    string // of an agent or a person; "" for others, which have no limits
	message int    // additional bytes that each of its messages counts for
}

// tooMuch returns the connections to close: those above a user's limits of connections and subscriptions, those of a user with too many unread
// bytes, and those with the most unread bytes when all connections together have too many. unread is the total of unread bytes. A user that sends
// too much is only read more slowly.
func (s *shares) tooMuch(conns []*server.ConnInfo, now time.Time) (cids []uint64, unread int) {
	type share struct{ conns, subs, unread int }
	all := map[string]*share{}
	was, paces := s.seen, s.paces
	s.seen, s.own, s.paces = map[uint64]int{}, nil, map[string]*pace{}
	for name, is := range paces {
		if is.bytes.TokensAt(now) < eachBurst || is.behind.TokensAt(now) < behindBurst {
			s.paces[name] = is
		}
	}
	var open []*server.ConnInfo
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return a.Start.Compare(b.Start) }) // the oldest stay
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

// identify adds the owner to each connection. It asks the server once per connection, since the server verifies the signatures of all keys in an
// answer.
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

// user returns the owner of a connection.
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
