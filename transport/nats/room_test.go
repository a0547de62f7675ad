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

// TestTooMuch holds who is closed for what it takes of the memory: never those in this process.
func TestTooMuch(t *testing.T) {
	now := time.Now()
	var conns []*server.ConnInfo
	add := func(user string, pending int) uint64 {
		cid := uint64(len(conns) + 1)
		conns = append(conns, &server.ConnInfo{Cid: cid, IP: "10.0.0.1", Start: now.Add(time.Duration(cid) * time.Second), AuthorizedUser: user, Pending: pending})
		return cid
	}
	own := add("", maxUnread)
	conns[own-1].IP = ""
	for range maxEach {
		add("ada", 0)
	}
	tooMany := add("ada", 0)
	for range maxEach + 1 {
		add("", 0) // without keys nobody is told from others
	}
	if diff := cmp.Diff([]uint64{tooMany}, tooMuch(slices.Clone(conns))); diff != "" {
		t.Errorf("of too many connections (-want +got):\n%s", diff)
	}
	conns = conns[:1]
	add("bob", maxUnread/2)
	slowest := add("", maxUnread/2+2)
	add("eve", 10)
	if diff := cmp.Diff([]uint64{slowest}, tooMuch(slices.Clone(conns))); diff != "" {
		t.Errorf("of those that do not read (-want +got):\n%s", diff)
	}
	if got := tooMuch(conns[:2]); len(got) != 0 {
		t.Errorf("%v are closed, though there is room", got)
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
