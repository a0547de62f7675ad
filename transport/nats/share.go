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
	eachPace      = 64 << 20  // bytes a second that it sends, each message taken for messageCost more
	eachBurst     = 256 << 20 // and so many at once
	messageCost   = 1 << 10
)

// shares knows what agents and people take of a server. Each look at its connections is compared with the one before.
type shares struct {
	who   map[string]string // by key: the name of an agent or a person; "" for anybody else, who has no bounds
	sent  map[uint64]int64  // by connection, when it was looked at
	spent map[string]int64  // by name: bytes that were sent, less what its pace has let through since
	at    time.Time
}

// tooMuch returns the connections that take too much: what somebody has beyond their number, or of subscriptions, what is not read, what sends
// more than is let through; and when all together do not read what they are sent, those with the most. unread is how much that is.
func (s *shares) tooMuch(conns []*server.ConnInfo, now time.Time) (cids []uint64, unread int) {
	type share struct {
		conns, subs, unread int
		sent                int64
		closed              bool // all of it
	}
	all := map[string]*share{}
	sent, spent := map[uint64]int64{}, map[string]int64{}
	var open []*server.ConnInfo
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return a.Start.Compare(b.Start) }) // who came first stays
	for _, c := range conns {
		if c.IP == "" { // in this process
			continue
		}
		name := s.name(c)
		if name == "" {
			open, unread = append(open, c), unread+c.Pending
			continue
		}
		is := all[name]
		if is == nil {
			is = &share{}
			all[name] = is
		}
		sent[c.Cid] = c.InBytes + messageCost*c.InMsgs
		is.sent += sent[c.Cid] - s.sent[c.Cid]
		if is.conns >= maxEach || is.subs+int(c.NumSubs) > maxEachSubs {
			cids = append(cids, c.Cid)
			continue
		}
		is.conns, is.subs, is.unread = is.conns+1, is.subs+int(c.NumSubs), is.unread+c.Pending
		open, unread = append(open, c), unread+c.Pending
	}
	past := int64(now.Sub(s.at).Seconds() * eachPace)
	for name, before := range s.spent { // also of who has gone meanwhile, and comes again
		if left := before - past; left > 0 {
			spent[name] = left
		}
	}
	for name, is := range all {
		if is.sent > 0 {
			spent[name] += is.sent
		}
		is.closed = spent[name] > eachBurst
	}
	s.sent, s.spent, s.at = sent, spent, now
	slices.SortFunc(open, func(a, b *server.ConnInfo) int { return cmp.Compare(b.Pending, a.Pending) })
	left := unread
	for _, c := range open {
		is := all[s.name(c)]
		if left > maxUnread && c.Pending > 0 || is != nil && (is.closed || is.unread > maxEachUnread) {
			cids, left = append(cids, c.Cid), left-c.Pending
			if is != nil {
				is.unread -= c.Pending
			}
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
