package nats

import (
	"strings"

	"github.com/cortex-orchestrator/cortex/transport"
	"github.com/cortex-orchestrator/cortex/transport/nats/storecheck"
)

// FileAudit finds the files of an account that no message refers to, from the messages in the server's files.
type FileAudit struct {
	stored map[transport.Object]map[int]int // bytes of each chunk
	named  map[transport.Object]bool
	logged bool // the account has the stream of the conversations
}

// Inspect returns a function that takes the intact messages of a stream; nil for a stream that is not needed.
func (a *FileAudit) Inspect(stream string) func(*storecheck.Record) {
	if a.stored == nil {
		a.stored, a.named = map[transport.Object]map[int]int{}, map[transport.Object]bool{}
	}
	switch stream {
	case fileStream:
		return a.chunk
	case logStream:
		a.logged = true
		return a.recordReferences
	case inboxStream, deadStream:
		return a.recordReferences
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

// recordReferences records the files that a message refers to. The fourth token of its subject is the tenant.
func (a *FileAudit) recordReferences(r *storecheck.Record) {
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

// Silent returns the bytes of each file that no message refers to. It returns none when the conversations are in another store, which may refer to
// any file.
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
