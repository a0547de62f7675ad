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
	roomPause = 100 * time.Millisecond // between two looks at how many are connected
	roomAgain = time.Second            // the same, when nobody could be closed
	roomTold  = 10 * time.Second       // between two lines of the log
	roomQuiet = time.Second            // how long after its beginning a connection may be closed for saying nothing
	roomLook  = time.Second            // between two looks at what each connection holds

	// A server keeps for each connection what was not read yet, up to maxPending bytes.
	maxPending = 24 << 20
	maxUnread  = 512 << 20 // of all connections together
	maxEach    = 128       // connections with the same keys
)

// keepRoom keeps a quarter of the connections that a server may have for those who come, until done is closed: a server that is full refuses
// everybody. While there is less, it closes those who are in nobody's way: first who has not said a word, then who has
// nothing to be told, then, on a server with keys, what a user with more than a quarter of all connections has too many; of each
// kind the one that was silent longest first. Everybody else, agents and chats, is told something or says something. At any time it closes
// what takes the memory of others, see tooMuch.
func keepRoom(done <-chan struct{}, ns *server.Server, most int, log *slog.Logger) {
	told := rate.Sometimes{First: 1, Interval: roomTold}
	next := time.NewTimer(roomPause)
	defer next.Stop()
	for looked := time.Now(); ; {
		select {
		case <-done:
			return
		case <-next.C:
		}
		pause := roomPause
		over := ns.NumClients() - most*3/4
		if over > 0 || time.Since(looked) >= roomLook {
			looked = time.Now()
			quiet, greedy := closeSome(ns, over, most/4)
			if quiet == 0 && over > 0 {
				pause = roomAgain
			}
			if over > 0 || greedy > 0 {
				told.Do(func() {
					log.Warn("nats server has closed connections: when there are nearly as many as there may be, those that say nothing; and those of users with too many, or that do not read what they are sent",
						"most", most, "too_many", max(over, 0), "closed", quiet+greedy)
				})
			}
		}
		next.Reset(pause)
	}
}

// closeSome closes about n connections, if so many say nothing, and what takes the memory of others. It returns how many of either.
func closeSome(ns *server.Server, n, share int) (quiet, greedy int) {
	list, err := ns.Connz(&server.ConnzOptions{Username: true, Limit: 1 << 20})
	if err != nil {
		return 0, 0 // it is shutting down
	}
	most := tooMuch(list.Conns)
	some := quietest(list.Conns, share, list.Now)
	some = some[:max(0, min(n, len(some)))]
	for _, cid := range slices.Concat(most, some) {
		ns.DisconnectClientByID(cid) //nolint:errcheck // it has gone by itself
	}
	return len(some), len(most)
}

// tooMuch returns the connections that take too much memory: what the same keys have beyond their number, and, when all together do not read
// what they are sent, those with the most.
func tooMuch(conns []*server.ConnInfo) []uint64 {
	var cids []uint64
	var slow []*server.ConnInfo
	users, unread := map[string]int{}, 0
	slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return a.Start.Compare(b.Start) }) // who came first stays
	for _, c := range conns {
		if c.IP == "" { // in this process
			continue
		}
		if users[c.AuthorizedUser]++; c.AuthorizedUser != "" && users[c.AuthorizedUser] > maxEach {
			cids = append(cids, c.Cid)
			continue
		}
		slow, unread = append(slow, c), unread+c.Pending
	}
	slices.SortFunc(slow, func(a, b *server.ConnInfo) int { return cmp.Compare(b.Pending, a.Pending) })
	for _, c := range slow {
		if unread <= maxUnread {
			break
		}
		cids, unread = append(cids, c.Cid), unread-c.Pending
	}
	return cids
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
