package nats

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

const (
	roomPause = 100 * time.Millisecond // between two looks at the connections
	roomSoon  = 10 * time.Millisecond  // the same, after a new connection or when much is unread
	roomAgain = time.Second            // the same, when there are too many connections and none may be closed
	roomPart  = 20                     // one part in so many of the time is spent on looking
	roomTold  = 10 * time.Second       // between two log lines
	roomQuiet = time.Second            // a connection younger than this is not closed for being silent

	// maxPending is how many unread bytes the server keeps for a connection.
	maxPending = 24 << 20
	ownPending = 64 << 20  // for connections of this process to a server with keys: far above what others may have
	maxUnread  = 512 << 20 // unread bytes of all connections together
)

// keepRoom keeps a quarter of the connections of a server free until done is closed, since a full server refuses everybody. While fewer are free,
// it closes connections that cannot be in use: first those that have sent nothing, then those without subscriptions, then, on a server with keys,
// those that a user has beyond a quarter of all connections; in each group the longest silent first. Connections of agents and chats have
// subscriptions and send messages. It always closes connections beyond a user's share, see shares. came receives a value when somebody has
// connected.
func keepRoom(done, came <-chan struct{}, ns *server.Server, most int, all *pacedConns, log *slog.Logger) {
	told := rate.Sometimes{First: 1, Interval: roomTold}
	of := &shares{
		keyed: all != nil,
		pend: func(cid uint64, most int) {
			if is := connStateOf(ns, cid); is != nil {
				is.setMaxPending(most)
			}
		},
		pace: func(c *server.ConnInfo, is *pace) { all.setPace(c.IP, c.Port, connStateOf(ns, c.Cid), is) },
	}
	due := time.Now().Add(roomPause)
	next := time.NewTimer(roomPause)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-came:
			if soon := time.Now().Add(roomSoon); soon.Before(due) { // by then the server knows who it is
				due = soon
				next.Reset(roomSoon)
			}
			continue
		case <-next.C:
		}
		began := time.Now()
		over := ns.NumClients() - most*3/4
		quiet, greedy, unread := of.closeSome(ns, over, most/4)
		all.setOwn(ns, of.own)
		pause := roomPause
		switch {
		case unread > maxEachUnread/4:
			pause = roomSoon
		case quiet+greedy == 0 && over > 0:
			pause = roomAgain
		}
		if over > 0 || greedy > 0 {
			told.Do(func() {
				log.Warn("nats server has closed connections: when there are nearly as many as there may be, those that say nothing; and those of who has too many, or does not read what it is sent",
					"most", most, "too_many", max(over, 0), "closed", quiet+greedy)
			})
		}
		if unread <= maxEachUnread {
			pause = max(pause, roomPart*time.Since(began))
		}
		due = time.Now().Add(pause)
		next.Reset(pause)
	}
}

// closeSome closes up to n connections that cannot be in use, and those above a user's share. It returns how many of each, and how many bytes are
// unread.
func (s *shares) closeSome(ns *server.Server, n, share int) (quiet, greedy, unread int) {
	list, err := ns.Connz(&server.ConnzOptions{Limit: 1 << 20})
	if err != nil {
		return 0, 0, 0 // the server is shutting down
	}
	if s.keyed {
		s.identify(list.Conns, func(cid uint64) *server.ConnInfo {
			if one, err := ns.Connz(&server.ConnzOptions{CID: cid, Username: true}); err == nil && len(one.Conns) == 1 {
				return one.Conns[0]
			}
			return nil
		})
	}
	most, unread := s.tooMuch(list.Conns, list.Now)
	var some []uint64
	if n > 0 {
		some = quietest(list.Conns, share, list.Now)
		some = some[:min(n, len(some))]
	}
	for _, cid := range slices.Concat(most, some) {
		ns.DisconnectClientByID(cid) //nolint:errcheck // it has gone by itself
	}
	return len(some), len(most), unread
}

// quietest returns the connections that may be closed, in that order.
func quietest(conns []*server.ConnInfo, share int, now time.Time) []uint64 {
	const silent, idle, greedy, needed = 0, 1, 2, 3
	type candidate struct {
		cid  uint64
		kind int
		last time.Time
	}
	var all []candidate
	users := map[string]int{}
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return b.LastActivity.Compare(a.LastActivity) }) // the most recently active connections of a user stay
	for _, c := range conns {
		if c.IP == "" { // in this process
			continue
		}
		users[c.AuthorizedUser]++
		kind := needed
		switch {
		case c.LastActivity.Equal(c.Start) && c.InMsgs == 0:
			kind = silent
		case c.NumSubs == 0:
			kind = idle
		case c.AuthorizedUser != "" && users[c.AuthorizedUser] > share:
			kind = greedy
		}
		if kind != needed && now.Sub(c.Start) > roomQuiet {
			all = append(all, candidate{c.Cid, kind, c.LastActivity})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.kind, b.kind), a.last.Compare(b.last)) })
	cids := make([]uint64, len(all))
	for i, c := range all {
		cids[i] = c.cid
	}
	return cids
}
