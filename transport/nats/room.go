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
)

// keepRoom keeps a quarter of the connections that a server may have for those who come, until done is closed: a server that is full refuses
// everybody. While there is less, it closes those who are in nobody's way: first who has not said a word, then who has
// nothing to be told, then, on a server with keys, what a user with more than a quarter of all connections has too many; of each
// kind the one that was silent longest first. Everybody else, agents and chats, is told something or says something.
func keepRoom(done <-chan struct{}, ns *server.Server, most int, log *slog.Logger) {
	told := rate.Sometimes{First: 1, Interval: roomTold}
	next := time.NewTimer(roomPause)
	defer next.Stop()
	for {
		select {
		case <-done:
			return
		case <-next.C:
		}
		pause := roomPause
		if over := ns.NumClients() - most*3/4; over > 0 {
			closed := closeQuiet(ns, over, most/4)
			if closed == 0 {
				pause = roomAgain
			}
			told.Do(func() {
				log.Warn("nats server has nearly as many connections as it may: those that say nothing are closed", "most", most, "closed", closed, "too_many", over)
			})
		}
		next.Reset(pause)
	}
}

// closeQuiet closes about n connections, if so many say nothing, and returns how many.
func closeQuiet(ns *server.Server, n, share int) int {
	list, err := ns.Connz(&server.ConnzOptions{Username: true, Limit: 1 << 20})
	if err != nil {
		return 0 // it is shutting down
	}
	quiet := quietest(list.Conns, share, list.Now)
	quiet = quiet[:min(n, len(quiet))]
	for _, cid := range quiet {
		ns.DisconnectClientByID(cid) //nolint:errcheck // it has gone by itself
	}
	return len(quiet)
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
