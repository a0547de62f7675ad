package nats

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// TestFileAudit audits files to which streams refer, among many references to files that nobody has stored. It keeps little of those, and the check
// may read everything twice.
func TestFileAudit(t *testing.T) {
	object := func(id string) transport.Object {
		return transport.Object{Tenant: "t", ContextID: "c1", From: "user:ann", ID: id}
	}
	refer := func(id string) string { return `{"url":"cortex-file:c1/user=3Aann/` + id + `"}` }
	seq, absent := uint64(0), 0
	add := func(each func(*storecheck.Record), subject, data string) {
		seq++
		each(&storecheck.Record{Seq: seq, Subject: subject, Data: []byte(data)})
	}
	noise := func(each func(*storecheck.Record), subject string, messages int) {
		for range messages {
			var b []byte
			for range 1000 {
				absent++
				b = fmt.Appendf(b, `"cortex-file:c1/user=3Aann/%d",`, absent)
			}
			add(each, subject, string(b))
		}
	}
	a := &FileAudit{}
	before := heap()
	for range 2 {
		for _, stream := range []struct{ name, subject, refers string }{
			{"CORTEX_AGENTS", "", ""},
			{deadStream, deadPrefix + "t.x.c1", refer("dead")},
			{fileStream, "", ""},
			{inboxStream, inboxPrefix + "t.x.1.c1.user=3Aann", refer("waits")},
			{logStream, "cortex.v1.log.t.c1", refer("logged")},
		} {
			each := a.Inspect(stream.name)
			if (each == nil) != (stream.name == "CORTEX_AGENTS") {
				t.Fatalf("Inspect(%s) takes messages: %v", stream.name, each != nil)
			}
			switch {
			case stream.name == fileStream:
				for _, id := range []string{"dead", "waits", "logged", "silent"} {
					for n, data := range []string{"12345678", "1234"} {
						add(each, chunkSubject(object(id), n), data)
					}
				}
				add(each, chunkSubject(object("silent"), 1), "123456") // stored once more
			case stream.refers != "":
				noise(each, stream.subject, 50)
				add(each, stream.subject, stream.refers)
			}
		}
	}
	if absent < 300_000 {
		t.Errorf("%d references to files that are not stored", absent)
	}
	if d := cmp.Diff(map[transport.Object]int64{object("silent"): 14}, a.Silent()); d != "" {
		t.Errorf("the files to which nothing refers differ (-want +got):\n%s", d)
	}
	keeps := heap() - before
	if keeps > 12<<20 {
		t.Errorf("the audit keeps %d kB", keeps>>10)
	}
	runtime.KeepAlive(a)
}

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
