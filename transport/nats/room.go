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
	roomPause = 100 * time.Millisecond // between two looks at who is connected
	roomSoon  = 10 * time.Millisecond  // the same, when others have come, or much was not read
	roomAgain = time.Second            // the same, when there are too many connections and none of them may be closed
	roomPart  = 20                     // one part of the time, of so many, is spent on looking
	roomTold  = 10 * time.Second       // between two lines of the log
	roomQuiet = time.Second            // how long after its beginning a connection may be closed for saying nothing

	// A server keeps for each connection what was not read yet, up to maxPending bytes.
	maxPending = 24 << 20
	ownPending = 64 << 20  // for a connection of this process's own to a server with keys: well above crowd
	maxUnread  = 512 << 20 // of all connections together
)

// keepRoom keeps a quarter of the connections that a server may have for those who come, until done is closed: a server that is full refuses
// everybody. While there is less, it closes those who are in nobody's way: first who has not said a word, then who has
// nothing to be told, then, on a server with keys, what a user with more than a quarter of all connections has too many; of each
// kind the one that was silent longest first. Everybody else, agents and chats, is told something or says something. At any time it closes
// what takes more than its share, see shares. Something in came says that somebody has connected.
func keepRoom(done, came <-chan struct{}, ns *server.Server, most int, all *visits, log *slog.Logger) {
	told := rate.Sometimes{First: 1, Interval: roomTold}
	of := &shares{
		keyed: all != nil,
		pend: func(cid uint64, most int) {
			if is := servedBy(ns, cid); is != nil {
				is.keep(most)
			}
		},
		pace: func(c *server.ConnInfo, is *pace) { all.of(c.IP, c.Port, servedBy(ns, c.Cid), is) },
	}
	due := time.Now().Add(roomPause)
	next := time.NewTimer(roomPause)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-came:
			if soon := time.Now().Add(roomSoon); soon.Before(due) { // until then the server knows who it is
				due = soon
				next.Reset(roomSoon)
			}
			continue
		case <-next.C:
		}
		began := time.Now()
		over := ns.NumClients() - most*3/4
		quiet, greedy, unread := of.closeSome(ns, over, most/4)
		all.keep(ns, of.own)
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

// closeSome closes about n connections, if so many say nothing, and what takes too much. It returns how many of either, and how much was
// not read.
func (s *shares) closeSome(ns *server.Server, n, share int) (quiet, greedy, unread int) {
	list, err := ns.Connz(&server.ConnzOptions{Limit: 1 << 20})
	if err != nil {
		return 0, 0, 0 // it is shutting down
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

// quietest returns the connections that may be closed, in the order in which to close them.
func quietest(conns []*server.ConnInfo, share int, now time.Time) []uint64 {
	const silent, idle, greedy, needed = 0, 1, 2, 3
	type candidate struct {
		cid  uint64
		kind int
		last time.Time
	}
	var all []candidate
	users := map[string]int{}
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return b.LastActivity.Compare(a.LastActivity) }) // who said something last keeps it
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
