package nats

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
)

// TestQuietest checks which connections are closed on a crowded server, and in which order.
func TestQuietest(t *testing.T) {
	now := time.Now()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	conn := func(cid uint64, start, last int, subs uint32, user string) *server.ConnInfo {
		return &server.ConnInfo{Cid: cid, IP: "10.0.0.1", Start: ago(start), LastActivity: ago(last), NumSubs: subs, AuthorizedUser: user}
	}
	own := conn(1, 900, 900, 0, "")
	own.IP = "" // in this process
	conns := []*server.ConnInfo{
		own,
		conn(2, 60, 50, 3, ""),    // an agent
		conn(3, 10, 10, 0, ""),    // silent
		conn(4, 20, 20, 0, ""),    // silent for longer
		conn(5, 90, 30, 0, ""),    // no subscriptions
		conn(6, 0, 0, 0, ""),      // new
		conn(7, 80, 70, 1, "ada"), // two of hers are within her share
		conn(8, 80, 60, 1, "ada"),
		conn(9, 80, 70, 1, "bob"), // his third and fourth are not
		conn(10, 80, 60, 1, "bob"),
		conn(11, 80, 75, 1, "bob"),
		conn(12, 90, 80, 1, "bob"),
	}
	if diff := cmp.Diff([]uint64{4, 3, 5, 12, 11}, quietest(conns, 2, now)); diff != "" {
		t.Errorf("quietest() (-want +got):\n%s", diff)
	}
}

// TestTooMuch checks which connections are closed for what they use: never those of this process or of an orchestrator.
func TestTooMuch(t *testing.T) {
	const mega = 1 << 20
	type conn struct {
		who           string // "" without keys
		subs, pending int
	}
	begin := time.Now()
	made := func(all ...conn) []*server.ConnInfo {
		var conns []*server.ConnInfo
		for i, c := range all {
			conns = append(conns, &server.ConnInfo{
				Cid: uint64(i), IP: "10.0.0.1", Start: begin.Add(time.Duration(i)), AuthorizedUser: c.who,
				NumSubs: uint32(c.subs), Pending: c.pending,
			})
			if c.who == "here" {
				conns[i].IP = ""
			}
		}
		return conns
	}
	times := func(n int, c conn) []conn { return slices.Repeat([]conn{c}, n) }
	for _, test := range []struct {
		what  string
		conns []conn
		want  []uint64
	}{
		{"as much as may be", slices.Concat(times(maxEach, conn{"ada", maxEachSubs / maxEach, mega}), times(maxEach, conn{"bob", 1, 0})), nil},
		{"those without keys are many", times(1000, conn{"", 60, 0}), nil},
		{"this process and an orchestrator", slices.Concat(times(100, conn{"here", 100, 24 * mega}), times(100, conn{"cortex", 100, 4 * mega})), nil},
		{"connections", slices.Concat(times(maxEach, conn{"ada", 1, 0}), []conn{{"bob", 1, 0}, {"ada", 0, 0}}), []uint64{maxEach + 1}},
		{"subscriptions", []conn{{"ada", 500, 0}, {"bob", 500, 0}, {"ada", 20, 0}, {"ada", 12, 0}}, []uint64{2}},
		{"unread", []conn{{"ada", 1, 20 * mega}, {"ada", 1, 24 * mega}, {"bob", 1, 24 * mega}, {"ada", 1, 23 * mega}}, []uint64{1}},
		{"unread altogether", times(22, conn{"", 1, 24 * mega}), []uint64{0}},
	} {
		of := newShares("ada", "bob")
		got, _ := of.tooMuch(made(test.conns...), begin)
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.what, diff)
		}
	}
}

// newShares returns the shares of a server on which only these users have limits.
func newShares(limited ...string) *shares {
	s := &shares{who: map[string]user{"cortex": {}, "here": {}}, pend: func(uint64, int) {}, pace: func(*server.ConnInfo, *pace) {}}
	for _, who := range limited {
		s.who[who] = user{who, agentMessage}
	}
	return s
}

// TestSharesAreDivided checks how many bytes may wait for a connection, which are fewer when its user has many connections, and how fast each
// connection is read: at its user's pace, which also applies after a reconnect.
func TestSharesAreDivided(t *testing.T) {
	now := time.Now()
	of := newShares("ada", "bob")
	pending, paces := map[uint64]int{}, map[int]*pace{}
	of.pend = func(cid uint64, most int) { pending[cid] = most }
	of.pace = func(c *server.ConnInfo, is *pace) { paces[c.Port] = is }
	look := func(conns ...*server.ConnInfo) {
		t.Helper()
		if closed, _ := of.tooMuch(conns, now); len(closed) > 0 {
			t.Errorf("%v are closed", closed)
		}
	}
	conn := func(cid int, who string, msgs int64) *server.ConnInfo {
		return &server.ConnInfo{Cid: uint64(cid), IP: "10.0.0.1", Port: cid, AuthorizedUser: who, InMsgs: msgs}
	}
	own := conn(1, "here", 0)
	own.IP = ""
	bob := conn(2, "bob", 0)
	ada := []*server.ConnInfo{own, bob, conn(3, "cortex", 0), conn(4, "", 0)}
	for i := range 16 {
		ada = append(ada, conn(10+i, "ada", 0))
	}
	look(ada...)
	if diff := cmp.Diff([]int{ownPending, maxPending, maxEachHeld / 16}, []int{pending[1], pending[2], pending[10]}); diff != "" {
		t.Errorf("what may wait (-want +got):\n%s", diff)
	}
	_, orchestrator := paces[3]
	_, unknown := paces[4]
	if !orchestrator || paces[3] != nil || unknown || paces[2] == nil || paces[10] != paces[25] || paces[2] == paces[10] {
		t.Errorf("paces: %v", paces)
	}
	look(ada[:10]...)
	if got := pending[10]; got != maxEachHeld/6 {
		t.Errorf("%d bytes may wait when there are fewer, want %d", got, maxEachHeld/6)
	}
	for i := range maxEach {
		ada = append(ada, conn(100+i, "ada", 0))
	}
	of.tooMuch(ada, now)
	if got := pending[10]; got != leastPending {
		t.Errorf("%d bytes may wait when there are many, want %d", got, leastPending)
	}
	look(conn(10, "ada", 0))
	spend(paces[10].bytes, now, 2*eachBurst)
	look() // she disconnects and returns
	look(conn(300, "ada", 0))
	if spare := paces[300].bytes.TokensAt(now); spare != -eachBurst {
		t.Errorf("%v bytes may be sent at once behind twice as many as may be", spare)
	}
	now = now.Add(10 * time.Second)
	look()
	if len(of.paces) > 0 {
		t.Errorf("%d paces are remembered of nobody", len(of.paces))
	}
}

// TestBrokenSaysWhy checks that a full disk, a process without files left, and a failing disk have different errors.
func TestBrokenSaysWhy(t *testing.T) {
	for said, want := range map[string]string{
		"no space left on device":                           "make room on the disk",
		"open /x/msgs/2.blk: too many open files":           "no file can be opened; this process may have ",
		"open /x/msgs/2.blk: too many open files in system": "`ulimit -n`",
		"input/output error":                                "see what is wrong with its disk",
	} {
		l := newServerLog(nil)
		l.Errorf("JetStream stream '%s > %s' critical write error: %v", "$G", "S", said)
		err := receive(t, l.broken)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), said) {
			t.Errorf("of %q: %v, want %q", said, err, want)
		}
		if full := strings.Contains(err.Error(), "make room"); full != (said == "no space left on device") {
			t.Errorf("of %q: %v", said, err)
		}
	}
}

// TestServerLogIsBounded makes strangers connect often, with large messages.
func TestServerLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newServerLog(slog.New(slog.NewTextHandler(&log, nil)))
		for range 1000 {
			l.Errorf("10.0.0.1:1 - cid:5 - maximum connections exceeded")
			l.Warnf("10.0.0.1:1 - cid:5 - %s", strings.Repeat("x", 64<<10))
			l.Errorf("Temporary Client Accept Error(%s), sleeping", "too many open files")
		}
		l.Errorf("JetStream failed to store: %s", strings.Repeat("\x1b[31m", 1<<20))
		time.Sleep(connWindow + time.Second)
		l.Errorf("10.0.0.1:1 - cid:6 - Slow Consumer")
		text := log.String()
		if n := strings.Count(text, "\n"); n != connLines+3 {
			t.Errorf("%d lines, want %d", n, connLines+3)
		}
		if len(text) > 100<<10 {
			t.Errorf("%d bytes", len(text))
		}
		for _, want := range []string{"said more about connections than is shown\" lines=2980", "JetStream failed", "Slow Consumer"} {
			if !strings.Contains(text, want) {
				t.Errorf("the log lacks %q", want)
			}
		}
	})
}
