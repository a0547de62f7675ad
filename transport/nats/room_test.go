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

// TestQuietest holds who is closed when a server is crowded, in which order, and who never is.
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
		conn(5, 90, 30, 0, ""),    // nothing to be told
		conn(6, 0, 0, 0, ""),      // just there
		conn(7, 80, 70, 1, "ada"), // two of hers are no more than her share
		conn(8, 80, 60, 1, "ada"),
		conn(9, 80, 70, 1, "bob"), // the third and fourth of his are
		conn(10, 80, 60, 1, "bob"),
		conn(11, 80, 75, 1, "bob"),
		conn(12, 90, 80, 1, "bob"),
	}
	if diff := cmp.Diff([]uint64{4, 3, 5, 12, 11}, quietest(conns, 2, now)); diff != "" {
		t.Errorf("quietest() (-want +got):\n%s", diff)
	}
}

// TestTooMuch holds who is closed for what it takes: never those in this process, nor an orchestrator's.
func TestTooMuch(t *testing.T) {
	const mega = 1 << 20
	type conn struct {
		who                 string // "" without keys
		subs, pending, sent int
	}
	begin := time.Now()
	made := func(all ...conn) []*server.ConnInfo {
		var conns []*server.ConnInfo
		for i, c := range all {
			conns = append(conns, &server.ConnInfo{
				Cid: uint64(i), IP: "10.0.0.1", Start: begin.Add(time.Duration(i)), AuthorizedUser: c.who,
				NumSubs: uint32(c.subs), Pending: c.pending, InBytes: int64(c.sent),
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
		{"as much as may be", slices.Concat(times(maxEach, conn{"ada", maxEachSubs / maxEach, mega, 4 * mega}), times(maxEach, conn{"bob", 1, 0, 0})), nil},
		{"those without keys are many", times(1000, conn{"", 60, 0, mega}), nil},
		{"this process and an orchestrator", slices.Concat(times(100, conn{"here", 100, 24 * mega, 1000 * mega}), times(100, conn{"cortex", 100, 4 * mega, 1000 * mega})), nil},
		{"connections", slices.Concat(times(maxEach, conn{"ada", 1, 0, 0}), []conn{{"bob", 1, 0, 0}, {"ada", 0, 0, 0}}), []uint64{maxEach + 1}},
		{"subscriptions", []conn{{"ada", 500, 0, 0}, {"bob", 500, 0, 0}, {"ada", 20, 0, 0}, {"ada", 12, 0, 0}}, []uint64{2}},
		{"unread", []conn{{"ada", 1, 20 * mega, 0}, {"ada", 1, 24 * mega, 0}, {"bob", 1, 24 * mega, 0}, {"ada", 1, 23 * mega, 0}}, []uint64{1}},
		{"unread altogether", times(22, conn{"", 1, 24 * mega, 0}), []uint64{0}},
		{"sent", []conn{{"ada", 1, 0, 200 * mega}, {"bob", 1, 0, 200 * mega}, {"ada", 1, 0, 100 * mega}}, []uint64{0, 2}},
	} {
		of := &shares{who: map[string]string{"ada": "ada", "bob": "bob", "cortex": ""}, at: begin}
		got, _ := of.tooMuch(made(test.conns...), begin)
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.what, diff)
		}
	}
	// What was sent holds for who comes again, until its time is over.
	of := &shares{who: map[string]string{"ada": "ada"}, at: begin}
	for _, look := range []struct {
		after time.Duration
		conns []conn
		want  int
	}{
		{0, []conn{{"ada", 1, 0, 200 * mega}}, 0},
		{0, []conn{{"ada", 1, 0, 200 * mega}}, 0}, // no more than before
		{0, []conn{{"ada", 1, 0, 300 * mega}}, 1},
		{0, nil, 0},
		{500 * time.Millisecond, []conn{{"ada", 1, 0, 0}}, 1},
		{time.Second, []conn{{"ada", 1, 0, 10 * mega}}, 0},
		{time.Second, []conn{{"ada", 1, 0, 80 * mega}}, 1},
		{10 * time.Second, []conn{{"ada", 1, 0, 100 * mega}}, 0},
	} {
		if got, _ := of.tooMuch(made(look.conns...), begin.Add(look.after)); len(got) != look.want {
			t.Errorf("after %v %v are closed of %+v, want %d", look.after, got, look.conns, look.want)
		}
	}
}

// TestBrokenSaysWhy tells a disk that is full from a process that may open no more files, and from a disk that fails.
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

// TestServerLogIsBounded has strangers connect as often as they like, with as much to say as they like.
func TestServerLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := newServerLog(slog.New(slog.NewTextHandler(&log, nil)))
		for range 1000 {
			l.Errorf("10.0.0.1:1 - cid:5 - maximum connections exceeded")
			l.Warnf("10.0.0.1:1 - cid:5 - %s", strings.Repeat("x", 1<<20))
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
