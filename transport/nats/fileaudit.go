package nats

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// FileAudit finds the files of an account of which nothing speaks, from the messages as the server's files have them.
type FileAudit struct {
	stored map[transport.Object]map[int]int // bytes of chunks
	named  map[transport.Object]bool
	logged bool // the conversations are here
}

// Inspect returns a function to which the intact messages of a stream are told, nil for one that does not matter.
func (a *FileAudit) Inspect(stream string) func(*storecheck.Record) {
	if a.stored == nil {
		a.stored, a.named = map[transport.Object]map[int]int{}, map[transport.Object]bool{}
	}
	switch stream {
	case fileStream:
		return a.chunk
	case logStream:
		a.logged = true
		return a.speaks
	case inboxStream, deadStream:
		return a.speaks
	}
	return nil
}

func (a *FileAudit) chunk(r *storecheck.Record) {
	o, n, err := parseChunkSubject(r.Subject)
	if r.Gone || err != nil {
		return
	}
	if a.stored[o] == nil {
		a.stored[o] = map[int]int{}
	}
	a.stored[o][n] = len(r.Data)
}

// speaks notes the files of which a message speaks, whose subject has the tenant behind its kind.
func (a *FileAudit) speaks(r *storecheck.Record) {
	token := strings.SplitN(r.Subject, ".", 5)
	if r.Gone || len(token) < 5 {
		return
	}
	tenant, err := transport.Unescape(token[3])
	if err != nil {
		return
	}
	for _, o := range transport.NamedFiles(tenant, r.Data) {
		a.named[o] = true
	}
}

// Silent returns how many bytes there are of each file of which nothing speaks. Where the conversations are in another store there is none: that
// store knows.
func (a *FileAudit) Silent() map[transport.Object]int64 {
	silent := map[transport.Object]int64{}
	if !a.logged {
		return silent
	}
	for o, chunks := range a.stored {
		if a.named[o] {
			continue
		}
		for _, n := range chunks {
			silent[o] += int64(n)
		}
	}
	return silent
}
